"""One run of the bench: both brokers are running, and each row measures them in turns, A B B A."""

import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headgate.tools.bench.measuring.brokers import HEADGATE, KAFKA, Broker, Launcher
from headgate.tools.bench.measuring.cluster import ClusterLauncher
from headgate.tools.bench.measuring.figures import Figure, Sample
from headgate.tools.bench.measuring.gauge import Conditions, count_comparable, running_gauge, select_comparable
from headgate.tools.bench.measuring.generator import PROGRAMS, TLS_LOAD, compile_program
from headgate.tools.bench.measuring.machine import (
    MachineTime,
    machine_time,
    others_share,
    own_cpu_seconds,
    process_cpu_seconds,
)
from headgate.tools.bench.measuring.secure_listeners import SecureListeners
from headgate.tools.bench.measuring.target import ClusterTarget, Target, resident_megabytes
from headgate.tools.bench.report import Journal, Line, Progress, Turns
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.cluster.faults import FAULTS, measure_faults
from headgate.tools.bench.rows.cluster.replicated import WARM_UP_ROW, IdlePartitionsRow
from headgate.tools.bench.rows.compaction import COMPACTIONS, measure_compactions
from headgate.tools.bench.rows.compaction import FIGURES as COMPACTION_FIGURES
from headgate.tools.bench.rows.compiled import measure_messages, message_lines
from headgate.tools.bench.rows.coordinators.coordinator_load import CoordinatorLoadResult, coordinator_load
from headgate.tools.bench.rows.coordinators.transaction_load import transaction_load
from headgate.tools.bench.rows.idle import idle_connection_bytes
from headgate.tools.bench.rows.restart import FIGURES as RESTART_FIGURES
from headgate.tools.bench.rows.restart import RESTARTS, measure_restarts
from headgate.tools.bench.rows.row import Row, Run
from headgate.tools.bench.rows.table import (
    COORDINATOR_LOAD,
    IDLE_CONNECTIONS,
    IDLE_TLS_CONNECTIONS,
    MEMORY,
    MESSAGES,
    REPLICATED,
    ROWS,
    SECURE,
    START,
    TRANSACTION_LOAD,
)

_SETTLE_SECONDS = 3.0  # between the start and the reading of idle memory
_JVM_SLICE_SECONDS = 2.0
_MAX_TURNS = 1.5  # times the wanted number of turns

R = TypeVar("R")
Turn = Mapping[str, Sample]
"""One leg of each broker, one after the other."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The durations and repetitions of a run.

    A JVM compiles code that has run often; until then Apache Kafka needs several times the CPU. So WARM_UP_ROWS load
    Kafka until the JVM has used `jvm_cpu_seconds` (CPU time, because a busy machine gives less of it; the default was
    measured as steady, the value of a quick run nearly). Before the first repetition each row runs for
    `warm_up_seconds` on Kafka, and for a third of this time on Headgate, which compiles only messages.
    """

    rows: Sequence[str]
    repetitions: int = 5
    seconds: float = 2.0
    turn_seconds: float = 0.4
    """The seconds of one leg, if the row allows: gears of a machine last for seconds, and should hit both brokers."""
    warm_up_seconds: float = 5.0
    jvm_cpu_seconds: float = 30.0
    is_quick: bool = False
    """True: some rows measure fewer things, not only less often."""

    def turns_of(self, row: Row) -> tuple[int, float]:
        """The number of turns and the seconds of one leg; long and short legs measure the same time in total."""
        leg_seconds = min(max(self.turn_seconds, row.least_seconds), self.seconds)
        turns = self.repetitions * self.seconds / leg_seconds
        return max(1, round(turns * row.turn_share)), leg_seconds

    def most_turns_of(self, row: Row) -> int:
        """The largest number of turns, with repeated ones. Long legs are not repeated: gears change within them."""
        turns, seconds = self.turns_of(row)
        return int(_MAX_TURNS * turns) if seconds < self.seconds else turns

    def steps(self, brokers: Sequence[str]) -> int:
        """The number of measurements and warm-ups for the progress bar, without repeated turns."""
        loads = [(ROWS | REPLICATED)[name] for name in self.rows if name in ROWS or name in REPLICATED]
        each = sum(self.turns_of(row)[0] + 1 for row in loads)
        alone = (START, *LOADS, *RESTARTS, *COMPACTIONS, *FAULTS)
        each += sum(name in self.rows for name in alone) * self.repetitions
        each += sum(name in self.rows for name in _CONNECTION_FIGURES)
        warm_ups = len(WARM_UP_ROWS) * (bool(loads) and KAFKA in brokers)
        return len(brokers) * each + warm_ups + (MESSAGES in self.rows and HEADGATE in brokers)


QUICK = Settings(
    (), repetitions=3, seconds=0.4, turn_seconds=0.2, warm_up_seconds=0.6, jvm_cpu_seconds=10.0, is_quick=True
)
WARM_UP_ROWS = {"produce-tiny-pipelined": 1.0, "fetch-4k": 0.4}  # row -> its share of `jvm_cpu_seconds`

_START_FIGURE = Figure("seconds to Metadata", lambda sample: sample.seconds, mark=1 / 8)
_IDLE, _AFTER_LOAD = "idle", "after load"
_MEMORY_FIGURES = {
    _IDLE: Figure("resident MB, idle", lambda _: math.nan, limit=64, unit="MB"),
    _AFTER_LOAD: Figure("resident MB, after load", lambda _: math.nan, limit=120, unit="MB"),
}
CoordinatorLoad = Callable[[Launcher, Path, Path], CoordinatorLoadResult]
"""Measures one load after a restart, in a directory, with the directory of the generators."""
LOADS: Mapping[str, tuple[CoordinatorLoad, str]] = {
    COORDINATOR_LOAD: (coordinator_load, "group"),
    TRANSACTION_LOAD: (transaction_load, "id"),
}
"""Row -> its measurement, and the word for a loaded thing."""
_CONNECTION_FIGURES = {
    name: Figure("resident bytes each", lambda _: math.nan, limit=limit, unit="bytes")
    for name, limit in ((IDLE_CONNECTIONS, 4096), (IDLE_TLS_CONNECTIONS, 32_768))
}


@dataclass(slots=True)
class Bench:
    """Measures the brokers of `launchers`, in this order in each repetition. `java` runs Kafka's own clients."""

    settings: Settings
    launchers: Sequence[Launcher]
    build: Path
    journal: Journal
    progress: Progress
    java: Sequence[str] = ()
    clusters: Mapping[str, Sequence[ClusterLauncher]] = field(default_factory=dict)
    """The launchers of clusters for each row of clusters."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def run(self) -> None:
        self.journal.open_with(**_facts(self.settings))
        with self._stack:
            directory = Path(tempfile.mkdtemp(prefix="data-", dir=self.build))
            self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
            if {*SECURE, IDLE_TLS_CONNECTIONS}.intersection(self.settings.rows):
                listeners = SecureListeners.with_key_of(directory)
                for launcher in self.launchers:
                    launcher.secure_listeners = listeners
            if START in self.settings.rows:
                self._measure_start(directory / "start")
            if MESSAGES in self.settings.rows and HEADGATE in {launcher.name for launcher in self.launchers}:
                self._measure_messages()
            for name in filter(self.settings.rows.__contains__, _CONNECTION_FIGURES):
                self._measure_idle_connections(name, directory / name)
            for name in filter(self.settings.rows.__contains__, LOADS):
                load, what = LOADS[name]
                self._measure_alone(name, self._coordinator_loads(load, directory / name), _loaded_figures(what))
            turns, launchers = self.settings.repetitions, self.launchers
            for name in filter(self.settings.rows.__contains__, RESTARTS):
                restarts = measure_restarts(RESTARTS[name], launchers, directory / name, self.build, turns)
                self._measure_alone(name, restarts, RESTART_FIGURES)
            for name in filter(self.settings.rows.__contains__, COMPACTIONS):
                compactions = measure_compactions(COMPACTIONS[name], launchers, directory / name, self.build, turns)
                self._measure_alone(name, compactions, COMPACTION_FIGURES)
            for name in filter(self.settings.rows.__contains__, FAULTS):
                fault = FAULTS[name].quick() if self.settings.is_quick else FAULTS[name]
                faults = measure_faults(fault, self.clusters[name], directory / name, self.build, turns)
                self._measure_alone(name, faults, fault.figures())
            if replicated := [name for name in self.settings.rows if name in REPLICATED]:
                self._measure_replicated(replicated, directory / "replicated")
            if MEMORY in self.settings.rows or self._loads():
                self._measure_loads(directory)

    def _measure_start(self, directory: Path) -> None:
        """Measure starts in fresh directories, before anything else of the bench runs."""
        values: dict[str, list[float]] = {launcher.name: [] for launcher in self.launchers}
        shares = []
        for number in range(self.settings.repetitions):
            for launcher in self.launchers:
                before, own = machine_time(), own_cpu_seconds()
                broker = launcher.start(directory)
                shares.append(_share_since(before, own - process_cpu_seconds(broker.process.pid)))
                values[launcher.name].append(broker.start_seconds)
                broker.stop()
                self.progress.step(f"{START} {number + 1} {launcher.name} {broker.start_seconds:.3f} s")
        self.journal.figure(Line.of(START, _START_FIGURE, values, max(shares)))

    def _measure_messages(self) -> None:
        """Measure messages in this process, before any broker runs."""
        before, own = machine_time(), own_cpu_seconds()
        rows = measure_messages(is_quick=self.settings.is_quick)
        lines = message_lines(rows, _share_since(before, own))
        for line in lines:
            self.journal.figure(line)
        self.progress.step(f"{MESSAGES} {len(rows)} of them")

    def _measure_idle_connections(self, name: str, directory: Path) -> None:
        """Measure once: the sum over thousands of connections of a fresh process varies little."""
        values = {}
        before, own = machine_time(), own_cpu_seconds()
        for launcher in self.launchers:
            used = idle_connection_bytes(launcher, directory, is_encrypted=name == IDLE_TLS_CONNECTIONS)
            values[launcher.name] = [used]
            self.progress.step(f"{name} {launcher.name} {used:.0f} bytes")
        self.journal.figure(Line.of(name, _CONNECTION_FIGURES[name], values, _share_since(before, own)))

    def _measure_alone(
        self, name: str, measured: Iterable[tuple[str, int, R]], figures: Mapping[Figure, Callable[[R], float]]
    ) -> None:
        """Take the results as (broker, number of the turn, result). Each broker is alone on the machine."""
        series: dict[str, list[R]] = {launcher.name: [] for launcher in self.launchers}
        for program in ("load", "transactions", "bystander"):
            compile_program(program, self.build)
        before, own = machine_time(), own_cpu_seconds()
        try:
            for broker, number, result in measured:
                series[broker].append(result)
                self.progress.step(f"{name} {number + 1} {broker} {result}")
        except (BenchError, OSError) as error:
            self.journal.failure(name, str(error))
            return
        share = _share_since(before, own)
        for figure, of in figures.items():
            values = {broker: [of(result) for result in results] for broker, results in series.items()}
            self.journal.figure(Line.of(name, figure, values, share))

    def _coordinator_loads(
        self, load: CoordinatorLoad, directory: Path
    ) -> Iterator[tuple[str, int, CoordinatorLoadResult]]:
        for number in range(self.settings.repetitions):
            for launcher in self.launchers:
                yield launcher.name, number, load(launcher, directory, self.build)

    def _loads(self) -> list[str]:
        return [name for name in self.settings.rows if name in ROWS]

    def _measure_loads(self, directory: Path) -> None:
        brokers = [self._started(launcher, directory) for launcher in self.launchers]
        for program in PROGRAMS:
            compile_program(program, self.build)
        if any(ROWS[name].is_encrypted for name in self._loads()):
            compile_program(TLS_LOAD, self.build)
        scratch = directory / "scratch"
        scratch.mkdir()
        gauge = self._stack.enter_context(running_gauge(self.build))
        targets = [
            Target(broker, self.build, scratch, broker.client.versions(), self.java, gauge, launcher)
            for broker, launcher in zip(brokers, self.launchers, strict=True)
        ]
        if MEMORY in self.settings.rows:
            time.sleep(_SETTLE_SECONDS)
            self._measure_memory(_IDLE, brokers)
        if self._loads():
            self._warm_up_jvm(targets)
        for name in self._loads():
            self._try_row(ROWS[name].at_version_of([target.versions for target in targets]), targets)
        if MEMORY in self.settings.rows:
            self._measure_memory(_AFTER_LOAD, brokers)

    def _measure_replicated(self, names: Sequence[str], directory: Path) -> None:
        """Rows without faults, on two clusters that both run from the first row to the last."""
        for program in PROGRAMS:
            compile_program(program, self.build)
        with ExitStack() as stack:
            launchers = self.clusters[names[0]]
            clusters = [stack.enter_context(launcher.running(directory / launcher.name)) for launcher in launchers]
            gauge = stack.enter_context(running_gauge(self.build))
            targets = [ClusterTarget.of(cluster, self.build, directory, gauge) for cluster in clusters]
            for target in targets:
                if target.name == KAFKA:
                    used = _use_cpu(WARM_UP_ROW, target, len(target.cluster.nodes) * self.settings.jvm_cpu_seconds)
                    self.progress.step(f"JVMs warm after {used:.0f} CPU s of {WARM_UP_ROW.name}")
            for name in names:
                row = REPLICATED[name]
                if isinstance(row, IdlePartitionsRow) and self.settings.is_quick:
                    row = row.quick()
                self._try_row(row, targets)

    def _try_row(self, row: Row, targets: Sequence[Target]) -> None:
        """Measure a row; after a failure the other rows still have figures."""
        try:
            self._measure_row(row, targets)
        except (BenchError, OSError) as error:
            self.journal.failure(row.name, str(error))

    def _started(self, launcher: Launcher, directory: Path) -> Broker:
        broker = launcher.start(directory / launcher.name)
        self._stack.callback(broker.stop)
        return broker

    def _measure_memory(self, when: str, brokers: Sequence[Broker]) -> None:
        values = {broker.name: [resident_megabytes(broker)] for broker in brokers}
        self.journal.figure(Line.of(MEMORY, _MEMORY_FIGURES[when], values, 0.0))

    def _warm_up_jvm(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if target.name == KAFKA:
                for name, part in WARM_UP_ROWS.items():
                    used = _use_cpu(ROWS[name], target, part * self.settings.jvm_cpu_seconds)
                    self.progress.step(f"JVM warm after {used:.0f} CPU s of {name}")

    def _measure_row(self, row: Row, targets: Sequence[Target]) -> None:
        self.journal.row(row.name, row.version, row.connections)
        with ExitStack() as opened:
            runs = row.runs(targets, opened)
            for name, run in runs.items():
                seconds = self.settings.warm_up_seconds * row.warm_up_share / (1 if name == KAFKA else 3)
                self._step(row, name, "warm-up", run, seconds)
            turns = self.turns(row, runs) if runs else []
        if turns:
            self._report(row, turns, self.settings.turns_of(row)[0])

    def turns(self, row: Row, runs: Mapping[str, Run]) -> list[Turn]:
        """Measure turns until enough of them are comparable, or until the largest number of turns."""
        wanted, seconds = self.settings.turns_of(row)
        turns: list[Turn] = []
        while count_comparable(_met(turns)) < wanted and len(turns) < self.settings.most_turns_of(row):
            number, samples = len(turns), {}
            for name in list(runs)[:: -1 if number % 2 else 1]:  # what a leg leaves behind hits both legs
                samples[name] = self._step(row, name, str(number + 1), runs[name], seconds)
                self.journal.repetition(row.name, name, number, samples[name])
            turns.append({name: samples[name] for name in runs})
        return turns

    def _report(self, row: Row, turns: Sequence[Turn], wanted: int) -> None:
        met = _met(turns)
        counted = select_comparable(met, wanted)
        made = Turns(len(turns), count_comparable(met), counted)
        share = max(sample.others_share for turn in turns for sample in turn.values())
        for figure in row.figures:
            values = {name: [figure.of(turns[number][name]) for number in counted] for name in turns[0]}
            self.journal.figure(Line.of(row.name, figure, values, share, made))

    def _step(self, row: Row, broker: str, number: str, run: Run, seconds: float) -> Sample:
        sample = run(seconds)
        main, rate = row.figures[0], row.figures[min(1, len(row.figures) - 1)]
        shown = f"{main.of(sample):.4g} {main.name}, {rate.of(sample):.4g} {rate.name}"
        self.progress.step(f"{row.name} {number} {broker} {shown}, others {sample.others_share:.0%}")
        return sample


def _loaded_figures(what: str) -> dict[Figure, Callable[[CoordinatorLoadResult], float]]:
    return {
        Figure(f"s to every {what}", lambda _: math.nan, mark=1.0): lambda loaded: loaded.all_seconds,
        Figure("s to half of them", lambda _: math.nan): lambda loaded: loaded.half_seconds,
        Figure("s to Metadata", lambda _: math.nan): lambda loaded: loaded.metadata_seconds,
        Figure("CPU s", lambda _: math.nan, mark=1.0): lambda loaded: loaded.cpu_seconds,
        Figure("resident MB", lambda _: math.nan, mark=1.0): lambda loaded: loaded.resident_megabytes,
    }


def _use_cpu(row: Row, target: Target, seconds: float) -> float:
    """Load the broker until it has used `seconds` of CPU time; return the CPU seconds in fact used."""
    used = 0.0
    with row.opened(target) as run:
        while used < seconds:
            used += run(_JVM_SLICE_SECONDS).server_cpu_seconds
    return used


def _met(turns: Sequence[Turn]) -> list[list[Conditions]]:
    return [[Conditions(sample.gauge_us, sample.others_share) for sample in turn.values()] for turn in turns]


def _share_since(before: MachineTime, own_before: float) -> float:
    return others_share(machine_time().since(before), own_cpu_seconds() - own_before)


def _facts(settings: Settings) -> dict[str, object]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "rows": list(settings.rows),
        "repetitions": settings.repetitions,
        "seconds": settings.seconds,
        "turn_seconds": settings.turn_seconds,
        "warm_up_seconds": settings.warm_up_seconds,
        "jvm_cpu_seconds": settings.jvm_cpu_seconds,
    }
