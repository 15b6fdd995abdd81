"""The table of a replay: a folder of Parquet of `headgate spark load`, or a table of Delta or Iceberg, at one version.

a folder with _delta_log          Delta; its version
a folder with _headgate           a load's: its Parquet files up to a load, or the table that the loads went into
catalog.namespace.table           Iceberg; its snapshot
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from headgate.spark.load.output import load_log
from headgate.spark.load.output.documents import DamagedDocument
from headgate.spark.load.output.folder import FolderError, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.tables import DELTA, ICEBERG, PARQUET, check_identifier
from headgate.tools.output import UsageError


class TableSource(NamedTuple):
    """`name`: the folder, Delta's path, or Iceberg's name."""

    kind: str
    name: str

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that a session needs jars for."""
        return () if self.kind == PARQUET else (self.kind,)

    def version(self, session: Any) -> str:
        """The present version; empty for a table without one. Raises UsageError."""
        if self.kind == PARQUET:
            latest = _log(self.name).latest()
            return str(latest.number) if latest else ""
        if self.kind == DELTA:
            row = session.sql(f"DESCRIBE HISTORY delta.`{self.name.replace('`', '``')}` LIMIT 1").first()
            return str(row.version)
        found = session.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").first()
        return str(found.snapshot_id) if found else ""

    def rows(self, session: Any, version: str) -> Any:
        """The rows of a version. Raises UsageError."""
        if not version.isdecimal():
            raise UsageError(f"{version!r} is no version of {self.name}")
        if self.kind == DELTA:
            return session.read.format("delta").option("versionAsOf", version).load(self.name)
        if self.kind == ICEBERG:
            return session.sql(f"SELECT * FROM {self.name} VERSION AS OF {version}")
        return session.read.parquet(*self._files(int(version)))

    def _files(self, last_load: int) -> list[str]:
        """The Parquet files of the loads up to this one; without one, the folder: Spark then reports its error."""
        log, folder = _log(self.name), Path(self.name)
        try:
            manifests = [log.manifest(number) for number in range(1, last_load + 1)]
        except (DamagedDocument, FolderError) as error:
            raise UsageError(str(error)) from None
        files = [file.name for manifest in manifests for result in manifest.results for file in result.files]
        return [str(folder / name) for name in files] or [str(folder)]


def find_source(name: str) -> TableSource:
    """The table that a name stands for, without Spark. Raises UsageError."""
    if "://" in name:
        return _delta(name)
    folder = Path(name).absolute()
    if (folder / "_delta_log").is_dir():
        return _delta(name)
    if (folder / load_log.ROOT).is_dir():
        try:
            latest = _log(name).latest()
        except (DamagedDocument, FolderError) as error:
            raise UsageError(str(error)) from None
        if latest is None:
            raise UsageError(f"{name} has no published load of `headgate spark load`")
        into = latest.options["into"]
        if into == ICEBERG:
            return TableSource(into, latest.options["table"])
        return TableSource(PARQUET, str(folder)) if into == PARQUET else _delta(latest.options["table"])
    if folder.exists():
        raise UsageError(f"{name} is no table of Delta, and no folder of `headgate spark load`")
    try:
        check_identifier(name)
    except LoadRefused:
        raise UsageError(f"there is no folder {name}; a table of Iceberg is catalog.namespace.table") from None
    return TableSource(ICEBERG, name)


def _delta(path: str) -> TableSource:
    return TableSource(DELTA, path if "://" in path else str(Path(path).absolute()))


def _log(folder: str) -> LoadLog:
    return LoadLog(OutputFolder(folder))
