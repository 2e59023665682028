"""`make bench` and `make bench-full`: the operator against its peers, pair by pair, on one control plane."""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import floor, machine, phases, plan, programs, records, report
from bench.contestants import CONTESTANTS, PEERS
from bench.distribution import quantile
from bench.plan import Race
from bench.records import Record
from bench.rig import Rig, started
from controlplane import ControlPlaneError, WaitTimeoutError, binaries
from controlplane.paths import REPOSITORY
from controlplane.progress import note, step

HOME = REPOSITORY / ".cache" / "bench"
NOISY = 3
"""Exit code when others use the machine."""
HUNDREDTHS = [number / 100 for number in range(101)]
LOADED_FACTOR = 2.0
"""While it is loaded, strangers may take so many times `machine.QUIET_CORES`: our own kernel threads are among them."""
IDLE_SECONDS = {"quick": 20.0, "full": 60.0}


class NoisyMachineError(RuntimeError):
    """Somebody else uses the machine."""


class Racer:
    """Runs races on a rig, and appends a line for each run to the results."""

    def __init__(self, rig: Rig, results: Path, *, commit: str, idle_seconds: float, noisy: bool) -> None:
        self._rig = rig
        self._results = results
        self._commit = commit
        self._idle_seconds = idle_seconds
        self._noisy = noisy
        self._session = uuid.uuid4().hex[:8]
        self._machine = machine.description()
        self._runs = 0

    def race(self, race: Race, label: str) -> None:
        """Run one pair. Raises NoisyMachineError before a run on a machine that is in use."""
        for operator in race.order:
            with step(f"{label}  {race.n} resources, pair {race.pair + 1}: {operator}") as shown:
                others = self._wait_quiet(shown.update)
                outcome = self._run(operator, race.n, shown.update)
                outcome.others["before"] = others
                self._append(operator, race.peer, race, outcome)

    def floor(self, n: int, label: str) -> None:
        """Measure the bare writes."""
        with step(f"{label}  {n} resources: bare writes") as shown:
            outcome = phases.Outcome()
            outcome.others["before"] = self._wait_quiet(shown.update)
            prefix = self._prefix()
            outcome.metrics = floor.run(self._rig, n, prefix)
            self._rig.remove(n, prefix)
            self._append(plan.FLOOR, plan.FLOOR, Race(n, 0, plan.FLOOR), outcome)

    def _run(self, operator: str, n: int, say: Callable[[str], None]) -> phases.Outcome:
        rig, contestant, outcome = self._rig, CONTESTANTS[operator], phases.Outcome()
        size = phases.Size(n, min(100, n), self._idle_seconds)
        rig.drop_leases()
        say("drain")
        phases.drain(rig, contestant, size, self._prefix(), outcome)
        prefix = self._prefix()
        running = rig.start(contestant)
        try:
            phases.settle(running)
            say("load")
            phases.load(rig, running, size, prefix, outcome)
            say("scale and drift")
            phases.change(rig, running, size, prefix, outcome)
            say("idle")
            phases.idle(rig, running, size, outcome)
            say("restart")
            running = phases.restart(rig, running, prefix, outcome)
            if contestant.elects:
                say("failover")
                phases.failover(rig, running, prefix, outcome)
        finally:
            running.stop()
        say("delete")
        rig.remove(n, prefix)
        return outcome

    def _prefix(self) -> str:
        self._runs += 1
        return f"r{self._session}{self._runs}"

    def _wait_quiet(self, say: Callable[[str], None]) -> float:
        say("waiting for the control plane to be idle")
        self._rig.quiesce()
        others = self._rig.others()
        if others > machine.QUIET_CORES and not self._noisy:
            raise NoisyMachineError(
                f"others use {others:.2f} of {os.cpu_count()} cores, allowed are {machine.QUIET_CORES}: what would be "
                "measured is them. Try again later (what is done is kept), or take NOISY=1 to measure all the same"
            )
        return others

    def _append(self, operator: str, peer: str, race: Race, outcome: phases.Outcome) -> None:
        allowed = machine.QUIET_CORES
        others = outcome.others
        noisy = others["before"] > allowed or others.get("load", 0.0) > LOADED_FACTOR * allowed
        if noisy:
            note(f"  noisy: strangers took {max(others.values()):.2f} cores; this run settles nothing")
        records.append(
            self._results,
            Record(
                operator=operator,
                peer=peer,
                n=race.n,
                pair=race.pair,
                session=self._session,
                commit=self._commit,
                time=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                noisy=noisy,
                machine=self._machine,
                metrics={name: round(value, 4) for name, value in outcome.metrics.items()},
                latencies={
                    name: [round(quantile(values, share), 2) for share in HUNDREDTHS]
                    for name, values in outcome.latencies.items()
                },
                requests=outcome.requests,
                others={name: round(cores, 3) for name, cores in others.items()},
            ),
        )


def commit() -> str:
    """The last commit that changed the operator, with `-dirty` when its files differ from it."""
    git, package = ["git", "-C", str(REPOSITORY)], "operator/memcached_operator"
    last = subprocess.run(
        [*git, "log", "-1", "--abbrev=10", "--format=%h", "--", package], capture_output=True, text=True, check=True
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", package], check=False)
    return last.stdout.strip() + ("-dirty" if changed.returncode else "")


def race_all(races: Sequence[Race], arguments: argparse.Namespace) -> None:
    """Run what is left of the races, floors first. Raises what the rig raises, and NoisyMachineError."""
    now = commit()
    seen = records.read(arguments.results)
    left = plan.left(races, records.pairs(seen), now, noisy=arguments.noisy)
    floors = sorted({r.n for r in left} - {r.n for r in seen if (r.operator, r.commit) == (plan.FLOOR, now)})
    if not left:
        note(f"nothing is left to run for {now}: {arguments.results} has it all")
        return
    programs.build_all()
    binaries.ensure()
    folder = HOME / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    peers = {race.peer for race in left}
    with started(f"bench-{os.getpid()}", folder, peers.__contains__) as rig:
        racer = Racer(
            rig,
            arguments.results,
            commit=now,
            idle_seconds=IDLE_SECONDS[arguments.plan],
            noisy=arguments.noisy,
        )
        total = len(floors) + len(left)
        for number, n in enumerate(floors, 1):
            racer.floor(n, f"[{number}/{total}]")
        for number, race in enumerate(left, len(floors) + 1):
            racer.race(race, f"[{number}/{total}]")


def main(argv: Sequence[str] | None = None) -> int:
    """Race and report; return 0, 1 when something failed, 3 on a machine that is in use."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench")
    parser.add_argument("plan", choices=("quick", "full", "report"))
    parser.add_argument("--n", type=int, default=300, help="resources (quick)")
    parser.add_argument("--pairs", type=int, default=1, help="pairs against each peer (quick)")
    parser.add_argument("--peers", nargs="+", default=[plan.QUICK_PEER], choices=PEERS, help="whom to race (quick)")
    parser.add_argument("--noisy", action="store_true", help="run although others use the machine")
    parser.add_argument("--results", type=Path, help="JSON lines to add to")
    parser.add_argument("--page", type=Path, help="page to write")
    arguments = parser.parse_args(argv)
    quick = arguments.plan == "quick"
    arguments.results = arguments.results or (HOME / "quick.jsonl" if quick else report.RESULTS)
    arguments.page = arguments.page or (HOME / "performance.md" if quick else report.PAGE)
    try:
        if quick:
            race_all(plan.quick(arguments.n, arguments.peers, arguments.pairs), arguments)
        elif arguments.plan == "full":
            race_all(plan.full(), arguments)
    except NoisyMachineError as error:
        note(f"REFUSED  {error}")
        return NOISY
    except (binaries.BinaryError, programs.BuildError, ControlPlaneError, WaitTimeoutError, RuntimeError) as error:
        note(f"FAILED  {error}")
        return 1
    report.write(records.read(arguments.results), arguments.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
