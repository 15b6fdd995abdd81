"""The log of loads in the folder OUT: one number for each load, and one file whose creation publishes the load.

    OUT/part-<topic>-<partition>-<first>-<last>.parquet    published rows
    OUT_rejected/part-...parquet                           published records whose values did not decode
    OUT/_headgate/lock                                     held by the load that is at work
    OUT/_headgate/plans/<number>.json                      the plan, until it is published
    OUT/_headgate/work/<number>/...                        files and results of its tasks
    OUT/_headgate/manifests/<number>.json                  its creation publishes the load
    OUT/_headgate/id                                       the name of the folder in commits of tables
    OUT/_headgate/latest                                   the newest load whose files all have their visible names

The order: plan, files, results, manifest, renames, `latest`, removal of plan and work. After a crash the next load
renames what the manifest has published, and does a plan without a manifest again, at the same offsets; results that
are there stand. Readers skip names that begin with `_` or `.`; a hidden file does not end in `.parquet` either, for
readers by a pattern. A rename makes a file visible as a whole, and an offset is in one file only.

A zombie, a driver or a task that others believe dead, does no harm: a manifest and a result are created once, and
the second one to create it finds out. `latest` is a hint: later numbers are tried one after another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from headgate.spark.load.output import documents, folder
from headgate.spark.load.output.documents import DamagedDocument, LoadPlan, Manifest, RangeResult
from headgate.spark.load.output.folder import AlreadyExists, OutputFolder
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.arguments import now_ms

ROOT = "_headgate"
_PLANS, _WORK, _MANIFESTS = f"{ROOT}/plans", f"{ROOT}/work", f"{ROOT}/manifests"
_JSON = ".json"
_IDENTITY = f"{ROOT}/id"
_LOCK, _LATEST = f"{ROOT}/lock", f"{ROOT}/latest"


class LoadLog:
    """The loads of one folder."""

    def __init__(self, output: OutputFolder) -> None:
        self.output = output

    @property
    def rejected_folder(self) -> str:
        """The folder beside OUT for records whose values did not decode, relative to OUT."""
        return f"../{self.output.path.resolve().name}_rejected"

    # -------------------------------------------------------------------------------------------------------- reads

    def latest(self) -> Manifest | None:
        """The newest published load; None for a folder without one. Raises DamagedDocument, FolderError."""
        number = self._renamed_to()
        while self.output.exists(_manifest(number + 1)):
            number += 1
        if not number and any(name.endswith(_JSON) for name in self.output.list(_MANIFESTS)):
            self.manifest(1)  # names the one that is missing
        return self.manifest(number) if number else None

    def manifest(self, number: int) -> Manifest:
        """A published load. Raises DamagedDocument, FolderError."""
        data = self.output.read(_manifest(number))
        where = str(self.output.path / _manifest(number))
        if data is None:
            raise DamagedDocument(f"{where} is missing: the loads of a folder have the numbers from 1 on")
        found = documents.decode_manifest(data, where)
        if found.number != number:
            raise DamagedDocument(f"{where}: this is load {found.number}")
        return found

    def manifests(self) -> Iterator[Manifest]:
        """All published loads in order. Raises DamagedDocument, FolderError."""
        latest = self.latest()
        for number in range(1, latest.number + 1 if latest else 1):
            yield self.manifest(number)

    def unfinished(self, latest: Manifest | None) -> LoadPlan | None:
        """The plan that was not published. Raises DamagedDocument, FolderError."""
        name = _plan(latest.number + 1 if latest else 1)
        data = self.output.read(name)
        return None if data is None else documents.decode_plan(data, str(self.output.path / name))

    def result(self, plan: LoadPlan, index: int) -> RangeResult | None:
        """The result of a range; None before a task has ended it. Raises DamagedDocument, FolderError."""
        name = _result(plan.number, index)
        data = self.output.read(name)
        if data is None:
            return None
        found = documents.decode_result(data, str(self.output.path / name))
        if found.wanted != plan.ranges[index]:
            raise DamagedDocument(f"{self.output.path / name}: this is the result of {found.wanted}")
        return found

    def finished(self, number: int) -> set[int]:
        """The indexes of the ranges of a plan that have a result."""
        names = self.output.list(work_folder(number))
        return {int(name.split(".")[0].removeprefix("result-")) for name in names if name.startswith("result-")}

    def _renamed_to(self) -> int:
        """The number in `latest`; without a usable one the loads are counted from the first."""
        data = self.output.read(_LATEST) or b""
        return int(data) if data.isdigit() and len(data) < 19 else 0

    # ------------------------------------------------------------------------------------------------------ changes

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other loads. Raises FolderLocked."""
        for name in (_PLANS, _WORK, _MANIFESTS):
            self.output.make(name)
        with self.output.lock(_LOCK):
            yield

    def recover(self) -> Manifest | None:
        """Complete what was published, and return the newest load; for the holder of the lock.

        Raises LoadRefused for a lost file.
        """
        for name in (ROOT, _PLANS):
            self.output.remove_temporary(name)
        renamed_to = self._renamed_to()
        latest = self.latest()
        for number in range(renamed_to + 1, latest.number + 1 if latest else 1):
            self.complete(self.manifest(number))
        if latest is not None:
            self._forget(latest.number)
        return latest

    def begin(self, plan: LoadPlan) -> None:
        """Write the plan before any task runs. Raises LoadRefused if another load was faster."""
        try:
            self.output.create(_plan(plan.number), documents.encode_plan(plan))
        except AlreadyExists:
            raise self._overtaken(plan.number) from None

    def prepare(self, plan: LoadPlan) -> None:
        """Make the folder for the tasks of a plan."""
        self.output.make(work_folder(plan.number))

    def reset(self, number: int) -> None:
        """Remove results and files of the tasks of a plan."""
        self.output.remove(work_folder(number))
        self.output.make(work_folder(number))

    def identity(self) -> str:
        """A name of this folder that no other folder has, made at the first call."""
        while True:
            found = self.output.read(_IDENTITY)
            if found:
                return found.decode(errors="replace")
            with contextlib.suppress(AlreadyExists):
                self.output.create(_IDENTITY, folder.unique().encode())

    def record(self, plan_number: int, index: int, result: RangeResult) -> bool:
        """Record what a range became. False if another attempt of the task was faster; the caller removes its files."""
        try:
            self.output.create(_result(plan_number, index), documents.encode_result(result))
        except AlreadyExists:
            return False
        return True

    def publish(self, plan: LoadPlan, results: Sequence[RangeResult], before: Manifest | None) -> Manifest:
        """Publish a plan whose ranges are all done. Raises LoadRefused if another load has published it."""
        manifest = documents.manifest_of(plan, results, before, now_ms())
        try:
            # A load lists the folder of plans, to remove leftovers of a kill; the folder of manifests may be large
            self.output.create(_manifest(plan.number), documents.encode_manifest(manifest), temporary_in=_PLANS)
        except AlreadyExists:
            raise self._overtaken(plan.number) from None
        return manifest

    def complete(self, manifest: Manifest) -> None:
        """Give published files their visible names. Raises LoadRefused for a lost file."""
        has_rejected = any(result.rejected for result in manifest.results)
        if has_rejected:
            self.output.make(self.rejected_folder)
        for result in manifest.results:
            for file in result.files:
                self._show(file.work_name, file.name, result.wanted, manifest.number)
            for file in result.rejected:
                self._show(file.work_name, f"{self.rejected_folder}/{file.name}", result.wanted, manifest.number)
        if has_rejected:
            self.output.sync(self.rejected_folder)
        self.output.sync(".")
        self.output.replace(_LATEST, str(manifest.number).encode())
        self._forget(manifest.number)

    def _show(self, work_name: str, name: str, wanted: OffsetRange, number: int) -> None:
        """Give a file its visible name. Raises LoadRefused if it is nowhere."""
        if not self.output.rename(work_name, name) and not self.output.exists(name):
            raise LoadRefused(
                f"{self.output.path / name} is lost, with records of {wanted.partition} from {wanted.start_offset} to "
                f"{wanted.end_offset - 1}, which load {number} has published; put the file back from a copy"
            )

    def _forget(self, number: int) -> None:
        """Remove plan and work of a load whose files all have their visible names."""
        for name in (work_folder(number), _plan(number)):
            if self.output.exists(name):
                self.output.remove(name)

    def _overtaken(self, number: int) -> LoadRefused:
        return LoadRefused(
            f"another load has taken number {number} of {self.output.path}; nothing of this one is published. "
            "Start it again: it goes on behind the other load"
        )


def work_folder(number: int) -> str:
    return f"{_WORK}/{number:020}"


def _result(number: int, index: int) -> str:
    return f"{work_folder(number)}/result-{index:08}{_JSON}"


def _plan(number: int) -> str:
    return f"{_PLANS}/{number:020}{_JSON}"


def _manifest(number: int) -> str:
    return f"{_MANIFESTS}/{number:020}{_JSON}"
