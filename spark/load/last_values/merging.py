"""Tables of last values by key: a load merges the last record of each key into a table of Delta or Iceberg.

A record with a null value deletes its key. The table keeps partition and offset of each row, and a record takes the
place of an older one only: by a larger offset of its partition, or a larger partition. So a merge that is done again
changes nothing, and within a load the order of the rows does not matter.

Each load is one commit, and never a second one. Delta ignores a commit whose `txnAppId` and `txnVersion` it has.
Iceberg has the load in the summary of the snapshot, and takes a commit only if nothing that the merge has read was
changed meanwhile (`write.merge.isolation-level=serializable`, its default), so a zombie's commit fails.

Sources: Delta's documentation, "Idempotent table writes"; Iceberg's "Spark configuration" (snapshot-property) and
"Spark writes" (MERGE INTO).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.tables import DELTA, DeltaTable, IcebergTable, Table, check_identifier

KINDS = (DELTA, "iceberg")
_NEWEST_COMMITS = 100
_PLACE = "_place"
_IS_NEWER = "s.partition > t.partition OR (s.partition = t.partition AND s.offset > t.offset)"


class MergedTableName(NamedTuple):
    """A table of last values: Delta's path, or Iceberg's `catalog.namespace.table`; `load_id` as of `TableName`."""

    kind: str
    name: str
    load_id: str

    def open(self, session: Any) -> Table:
        """Raises LoadRefused for a name that Iceberg does not take."""
        if self.kind == DELTA:
            return MergedDeltaTable(session, self.name, self.load_id)
        check_identifier(self.name)
        return MergedIcebergTable(session, self.name, self.load_id)


class MergedDeltaTable(DeltaTable):
    """A table of Delta in a folder."""

    def has(self, number: int) -> bool:
        """By the newest commits; Delta itself ignores a repeated merge behind them."""
        if not self._exists():
            return False
        history = self._session.sql(f"DESCRIBE HISTORY delta.`{self._quoted()}` LIMIT {_NEWEST_COMMITS}")
        return bool(history.where(history.userMetadata == self._tag(number)).take(1))

    def append(self, frame: Any, number: int) -> None:
        """Merge the rows of a load. Raises LoadRefused for a table that is not of these loads."""
        target = f"delta.`{self._quoted()}`"
        if check_target(self._session, target, number, exists=self._exists()):
            _empty(frame).write.format("delta").save(self._path)
        settings = {
            "spark.databricks.delta.write.txnAppId": self._application,
            "spark.databricks.delta.write.txnVersion": str(number),
            "spark.databricks.delta.commitInfo.userMetadata": self._tag(number),
        }
        with _settings(self._session, settings), _view(last_records(frame)) as source:
            self._session.sql(merge_statement(target, source))


class MergedIcebergTable(IcebergTable):
    """A table of Iceberg in a catalog of the session."""

    _PROPERTY = "headgate-load"

    def has(self, number: int) -> bool:
        if not self._session.catalog.tableExists(self._name):
            return False
        return self._finds(
            f"SELECT * FROM {self._name}.snapshots WHERE summary['{self._PROPERTY}'] = '{self._tag(number)}'"
        )

    def append(self, frame: Any, number: int) -> None:
        """Merge the rows of a load. Raises LoadRefused for a table that is not of these loads."""
        exists = self._session.catalog.tableExists(self._name)
        if check_target(self._session, self._name, number, exists=exists):
            _empty(frame).writeTo(self._name).using("iceberg").create()
        setting = f"spark.sql.iceberg.snapshot-property.{self._PROPERTY}"
        rows = last_records(frame).persist()  # the merge reads its source twice
        try:
            with _settings(self._session, {setting: self._tag(number)}), _view(rows) as source:
                self._session.sql(merge_statement(self._name, source))
        finally:
            rows.unpersist()

    def publish(self, number: int) -> None:
        """A commit shows its rows."""


def check_target(session: Any, target: str, number: int, *, exists: bool) -> bool:
    """True if the first load has to create the table. Raises LoadRefused for a table that is not of these loads."""
    if number == 1 and exists and session.table(target).take(1):
        raise LoadRefused(
            f"{target} is a table with rows already, and the folder of positions has no load: the rows are not of "
            "`headgate spark table`, or its folder of positions is lost; name another table"
        )
    if number > 1 and not exists:
        raise LoadRefused(
            f"the table {target} is gone, but the folder of positions has {number - 1} loads of it: put the table "
            "back, or remove the folder of positions to build the table anew from the topic"
        )
    return not exists


def merge_statement(target: str, source: str) -> str:
    """SQL: the last records of keys into a table of last values."""
    return (
        f"MERGE INTO {target} AS t USING {source} AS s ON t.key = s.key "
        f"WHEN MATCHED AND ({_IS_NEWER}) AND s.value IS NULL THEN DELETE "
        f"WHEN MATCHED AND ({_IS_NEWER}) THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT *"
    )


def last_records(frame: Any) -> Any:
    """The record of each key with the largest partition and offset."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    newest_first = Window.partitionBy("key").orderBy(f.desc("partition"), f.desc("offset"))
    return frame.withColumn(_PLACE, f.row_number().over(newest_first)).where(f"{_PLACE} = 1").drop(_PLACE)


def _empty(frame: Any) -> Any:
    return frame.sparkSession.createDataFrame([], frame.schema)


@contextlib.contextmanager
def _settings(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


@contextlib.contextmanager
def _view(frame: Any) -> Iterator[str]:
    """The name of a view of the frame."""
    name = "headgate_last_records"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
