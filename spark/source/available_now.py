"""Runs of a query with the trigger AvailableNow until nothing is left.

Spark 4.1 asks a Python source once for the end of such a run, so each run is one batch; `maxOffsetsPerTrigger` limits
this batch. With the `kafka` format one run has as many batches as it takes.

    run(frame.writeStream.option("checkpointLocation", path).format("parquet").option("path", out))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def run(writer: Any, on_batch: Callable[[Any], None] | None = None) -> int:
    """Run the query of a `DataStreamWriter` again and again until a run has no batch; return the number of batches.

    `on_batch` is called with each batch's `StreamingQueryProgress`. Raises StreamingQueryException if a run fails: the
    next call begins where the checkpoint ends.
    """
    batches = 0
    while True:
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        done = [progress for progress in query.recentProgress if _is_batch(progress)]
        if not done:
            return batches
        batches += len(done)
        if on_batch is not None:
            for progress in done:
                on_batch(progress)


def _is_batch(progress: Any) -> bool:
    """True if a batch moved on in its sources; the last run has none such, and perhaps one to clean up state."""
    return any(source["startOffset"] != source["endOffset"] for source in progress["sources"])
