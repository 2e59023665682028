"""Which function runs which case of the catalogue: it takes the rig, and raises AssertionError for what is wrong."""

from __future__ import annotations

from collections.abc import Callable

from rig import Rig

Run = Callable[[Rig], None]

RUNS: dict[str, Run] = {}


def case(id_: str) -> Callable[[Run], Run]:
    """Mark the function that runs the case with this id."""

    def register(run: Run) -> Run:
        if id_ in RUNS:
            raise ValueError(f"two functions run {id_}")
        RUNS[id_] = run
        return run

    return register
