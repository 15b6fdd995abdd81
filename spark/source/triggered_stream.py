"""The reader of a stream for Spark 4.2 and later, which gives a Python stream its position, its limit and its trigger.

With the trigger AvailableNow a run has as many batches as its limit needs, as with the `kafka` format. Spark 4.1 lacks
the class that this module imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from headgate.spark.source.readers import StreamReader


class TriggeredStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A reader whose plan takes position and trigger from Spark; the options have the limits."""

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.planned().fix_target()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """The limit that Spark passes back with each question; the options say more."""
        if self.options.max_offsets_per_trigger:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        least = self.options.min_offsets_per_trigger
        return ReadMinRows(least) if least else ReadAllAvailable()

    def latestOffset(  # type: ignore[override]  # noqa: N802 - Spark's name
        self, start: Mapping[str, Any], limit: Any
    ) -> Mapping[str, Any]:
        plan = self.planned()
        plan.resume(start)
        return plan.latest(is_limited=not isinstance(limit, ReadAllAvailable))
