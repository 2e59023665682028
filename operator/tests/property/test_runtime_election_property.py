"""Two replicas, a bad network, and people who edit the Lease: never two leaders, and one again when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import random

from candidates import Candidate, never_two
from fake_api import FakeApi, Fault, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run

from memcached_operator.errors import NotFoundError, TransientError
from memcached_operator.gvr import LEASES
from memcached_operator.runtime.election import Lead

DELAYS = (0.0, 0.0, 0.0, 0.2, 1.0, 3.0, 6.0, 9.0, 14.0, 40.0)
"""Seconds that a message takes. The longest are those of a process that was stopped, or a packet that was held back."""

SEEDS = st.integers(0, 2**32 - 1)
NETWORKS = st.lists(st.sampled_from(["good", "bad", "awful", "none"]), min_size=3, max_size=6)
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(["cut watches", "delete", "clear", "wait", "wait", "compact"]), st.floats(0.1, 20.0)),
    max_size=8,
)


def weather(kind: str, rng: random.Random) -> Fault | None:
    """What becomes of one request."""
    if kind == "good":
        return None
    if kind == "none":
        return Fault(TransientError("refused"))
    loss = 0.5 if kind == "awful" else 0.15
    delays = DELAYS if kind == "awful" else DELAYS[:7]
    error = TransientError("reset") if rng.random() < loss else None
    return Fault(error, after=rng.random() < 0.5, delay=rng.choice(delays), reply=rng.choice(delays))


async def change_the_weather(candidate: Candidate, kinds: list[str], rng: random.Random) -> None:
    for kind in kinds:

        def fault(_: Request, kind: str = kind) -> Fault | None:
            return weather(kind, rng)

        candidate.api.fault = fault
        await asyncio.sleep(rng.choice((2.0, 11.0, 35.0)))


async def meddle(api: FakeApi, script: list[tuple[str, float]]) -> None:
    for deed, seconds in script:
        with contextlib.suppress(NotFoundError):
            match deed:
                case "cut watches":
                    api.cut_watches(LEASES)
                case "delete":
                    api.remove(LEASES, "ns", "operator")
                    await asyncio.sleep(16.0)  # nobody deletes it again as soon as it comes back
                case "clear":
                    api.edit(LEASES, "ns", "operator", {"spec": {"holderIdentity": ""}})
                case "compact":
                    api.compact()
                    api.cut_watches(LEASES)
        await asyncio.sleep(seconds)


@settings(max_examples=100)
@given(SEEDS, NETWORKS, NETWORKS, SCRIPTS)
def test_never_two_leaders_and_one_in_the_end(
    seed: int, of_a: list[str], of_b: list[str], script: list[tuple[str, float]]
) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test wants the same numbers again

    async def main() -> None:
        api = FakeApi()
        candidates = [Candidate(api, name, rng=rng.random) for name in "ab"]
        async with never_two(candidates):
            await asyncio.sleep(1.0)  # both have seen the Lease: the gap that the module's docstring names
            await asyncio.gather(
                change_the_weather(candidates[0], of_a, rng),
                change_the_weather(candidates[1], of_b, rng),
                meddle(api, script),
            )
            for one in candidates:
                one.api.fault = lambda _: None
            await asyncio.sleep(80.0)  # what is still under way, a Lease's duration, and a renewal
            leaders = [one for one in candidates if one.leads()]
            lost = [one for one in candidates if one.elector.state is Lead.LOST]
            assert len(leaders) == 1 or len(lost) == 2
            for one in candidates:
                assert one.told == expected(one.told)

    run(main())


def expected(told: list[str]) -> list[str]:
    """started, then fenced and regained in turns: the manager counts on that."""
    pattern = ["started"] + ["fenced", "regained"] * len(told)
    return pattern[: len(told)]


@settings(max_examples=60)
@given(SEEDS, st.lists(st.sampled_from(["crash", "stop", "start", "wait"]), max_size=25))
def test_never_two_leaders_among_replicas_that_come_and_go(seed: int, script: list[str]) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test wants the same numbers again

    async def main() -> None:
        api = FakeApi()
        candidates = [Candidate(api, "first", rng=rng.random)]
        async with never_two(candidates):
            for number, deed in enumerate(script):
                running = [one for one in candidates if not one.task.done()]
                if deed == "start":
                    candidates.append(Candidate(api, f"replica-{number}", rng=rng.random))
                    candidates[-1].api.fault = lambda _: weather("bad", rng)
                elif deed in ("crash", "stop") and running:
                    victim = rng.choice(running)
                    await (victim.crash() if deed == "crash" else victim.stop())
                await asyncio.sleep(rng.choice((0.0, 0.1, 1.0, 6.0, 16.0)))
            for one in candidates:
                one.api.fault = lambda _: None
            await asyncio.sleep(80.0)
            living = [one for one in candidates if not one.task.done()]
            assert sum(one.leads() for one in candidates) == (1 if living else 0)

    run(main())
