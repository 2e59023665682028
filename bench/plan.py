"""What is raced against what, how often, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.records import Pair

FLOOR = "floor"
QUICK_PEER = "go-tuned"
GO = ("go-default", "go-tuned", "go-best")
CLAIM = 1000
"""The number of resources at which a figure is claimed, and five pairs are run."""
CLAIM_PAIRS = 5
SWEEP = (100, 300, CLAIM, 3000, 5000)
SLOW_PEER = "kopf-idiom"
"""It takes minutes where the others take seconds: it runs up to `CLAIM` resources only."""


@dataclass(frozen=True, slots=True, order=True)
class Race:
    """One pair to run: ours and a peer, with n resources each."""

    n: int
    pair: int
    peer: str

    @property
    def order(self) -> tuple[str, str]:
        """Who runs first: in turns, so that whatever drifts hits both (A B, B A, A B, ...)."""
        return ("ours", self.peer) if self.pair % 2 == 0 else (self.peer, "ours")


def quick(n: int, peers: Sequence[str], pairs: int) -> list[Race]:
    """Some pairs against each peer, at one size."""
    return [Race(n, pair, peer) for pair in range(pairs) for peer in peers]


def full() -> list[Race]:
    """Everything that docs/performance.md shows."""
    return [
        Race(n, pair, peer)
        for n in SWEEP
        for pair in range(CLAIM_PAIRS if n == CLAIM else 1)
        for peer in (*GO, *((SLOW_PEER,) if n <= CLAIM else ()))
    ]


def left(races: Iterable[Race], done: Iterable[Pair], commit: str, *, noisy: bool = False) -> list[Race]:
    """The races that no pair of this commit has settled; a noisy pair settles nothing, unless `noisy` will do."""
    settled = {
        (pair.ours.n, pair.ours.pair, pair.ours.peer)
        for pair in done
        if commit == pair.ours.commit == pair.theirs.commit and (noisy or not (pair.ours.noisy or pair.theirs.noisy))
    }
    return [race for race in races if (race.n, race.pair, race.peer) not in settled]
