"""Loads into tables of Delta and Iceberg: one commit of the table for each load, and never a second one.

Delta ignores a commit whose `txnAppId` and `txnVersion` it has: the id of the folder with the plans, and the number of
the load. Iceberg stages the rows in a snapshot with a `wap.id`, which no reader sees, and publishes it: a publication
whose id is among the ancestors of the current snapshot is refused, whatever was committed meanwhile. So a load that is
done again, also beside a zombie, adds its rows once.

Sources: Delta's documentation, "Idempotent table writes"; Iceberg's "Spark procedures" (publish_changes).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headgate.spark.load.output.planning import LoadRefused

DELTA, ICEBERG, PARQUET = "delta", "iceberg", "parquet"
KINDS = (PARQUET, DELTA, ICEBERG)
APPEND, MERGE = "append", "merge"
# Of the setting `spark.wap.id` of a session, which loads in threads of one program share
_STAGING = threading.Lock()
_IDENTIFIER = re.compile(r"\w+(?:\.\w+){1,9}", re.ASCII)


def mode_of(options: Mapping[str, str]) -> str:
    """By the options of a plan: a table has all records of its loads, or the last one of each key."""
    return options.get("mode", APPEND)


class TableName(NamedTuple):
    """A table: Delta's path, or Iceberg's `catalog.namespace.table`. `load_id`: of the folder with the plans."""

    kind: str
    name: str
    load_id: str

    def open(self, session: Any) -> Table:
        """Raises LoadRefused for a name that Iceberg does not take."""
        if self.kind == DELTA:
            return DeltaTable(session, self.name, self.load_id)
        check_identifier(self.name)
        return IcebergTable(session, self.name, self.load_id)


def check_identifier(name: str) -> None:
    """Raises LoadRefused for a name that Iceberg does not take."""
    if not _IDENTIFIER.fullmatch(name):
        raise LoadRefused(f"{name!r} is no table of Iceberg; write catalog.namespace.table")


class TargetTable(Protocol):
    """The name of a table, which a session opens."""

    def open(self, session: Any) -> Table:
        """Raises LoadRefused."""


class Table(Protocol):
    """A table that takes the rows of a load once."""

    def has(self, number: int) -> bool:
        """Whether the rows of a load are in the table, or staged there."""

    def append(self, frame: Any, number: int) -> None:
        """Commit or stage the rows of a load that the table does not have."""

    def publish(self, number: int) -> None:
        """Show staged rows to readers, unless they are shown."""

    def rows(self) -> Any:
        """The frame of the table as it is now: a later query of it has the same rows. Raises LoadRefused."""


class DeltaTable:
    """A table of Delta in a folder."""

    def __init__(self, session: Any, path: str, load_id: str) -> None:
        self._session = session
        self._path = path if "://" in path else str(Path(path).absolute())  # SQL takes no relative path
        self._application = f"headgate-load-{load_id}"

    def has(self, number: int) -> bool:
        """By the history, which Delta keeps for 30 days; later Delta itself still ignores a repeated commit."""
        if not self._exists():
            return False
        history = self._session.sql(f"DESCRIBE HISTORY delta.`{self._quoted()}`")
        return bool(history.where(history.userMetadata == self._tag(number)).take(1))

    def append(self, frame: Any, number: int) -> None:
        writer = frame.write.format("delta").mode("append").option("userMetadata", self._tag(number))
        writer.option("txnAppId", self._application).option("txnVersion", str(number)).save(self._path)

    def publish(self, number: int) -> None:
        """A commit shows its rows."""

    def rows(self) -> Any:
        """A frame of Delta has the newest version at each query, unless it names one. Raises LoadRefused."""
        if not self._exists():
            raise LoadRefused(f"there is no table of Delta at {self._path}")
        table = f"delta.`{self._quoted()}`"
        version = self._session.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()["version"]
        return self._session.sql(f"SELECT * FROM {table} VERSION AS OF {version}")

    def _exists(self) -> bool:
        from pyspark.errors import AnalysisException

        try:
            self._session.sql(f"DESCRIBE DETAIL delta.`{self._quoted()}`")
        except AnalysisException:
            return False
        return True

    def _quoted(self) -> str:
        return self._path.replace("`", "``")

    def _tag(self, number: int) -> str:
        return f"{self._application}-{number}"


class IcebergTable:
    """A table of Iceberg in a catalog of the session. `name` has no character that SQL would read otherwise."""

    def __init__(self, session: Any, name: str, load_id: str) -> None:
        self._session, self._name, self._id = session, name, load_id

    def has(self, number: int) -> bool:
        if not self._session.catalog.tableExists(self._name):
            return False
        return self._finds(f"SELECT * FROM {self._name}.snapshots WHERE {self._is_own(number)}")

    def append(self, frame: Any, number: int) -> None:
        if not self._session.catalog.tableExists(self._name):
            frame.limit(0).writeTo(self._name).using("iceberg").create()
        self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        with _STAGING:  # without its id a commit is no staged one, and a repetition doubles its rows
            self._session.conf.set("spark.wap.id", self._tag(number))
            try:
                frame.writeTo(self._name).append()
            finally:
                self._session.conf.unset("spark.wap.id")

    def publish(self, number: int) -> None:
        ancestors = f"SELECT snapshot_id FROM {self._name}.history WHERE is_current_ancestor"
        own = f"SELECT * FROM {self._name}.snapshots WHERE {self._is_own(number)} AND snapshot_id IN ({ancestors})"
        if not self._finds(own):
            catalog, _, table = self._name.partition(".")
            self._session.sql(f"CALL {catalog}.system.publish_changes('{table}', '{self._tag(number)}')")

    def rows(self) -> Any:
        """The snapshot of the branch `main`; a table without one is empty. Raises LoadRefused."""
        if not self._session.catalog.tableExists(self._name):
            raise LoadRefused(f"there is no table {self._name} of Iceberg")
        main = self._session.sql(f"SELECT snapshot_id FROM {self._name}.refs WHERE name = 'main'").first()
        version = f" VERSION AS OF {main.snapshot_id}" if main else " LIMIT 0"
        return self._session.sql(f"SELECT * FROM {self._name}{version}")

    def _finds(self, query: str) -> bool:
        return bool(self._session.sql(query).take(1))

    def _is_own(self, number: int) -> str:
        return f"'{self._tag(number)}' IN (summary['wap.id'], summary['published-wap-id'])"

    def _tag(self, number: int) -> str:
        return f"headgate-load-{self._id}-{number}"
