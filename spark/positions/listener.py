"""A listener that commits the progress of streaming queries to a group, so that every lag tool sees them.

    from headgate.spark.positions.listener import ProgressListener

    spark.streams.addListener(ProgressListener("127.0.0.1:9092", "orders-query", checkpoint="/checkpoints/orders"))

Spark reports a batch after the batch is done, so the group is never ahead of the query. A failure to commit is logged,
and the next report commits again: a query never stops for its listener. With `checkpoint` the ids of the topics are
noted there, for `headgate spark check`; with `history` each batch is a line in a file, for `headgate spark lag --plot`.
A listener for one query: of several queries, name the one with `query`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from headgate.spark.positions.committer import GroupCommitter
from headgate.spark.positions.history import BatchRecord, build_line, of_progress
from headgate.spark.security_options import security_of

logger = logging.getLogger("headgate.spark")


class ProgressListener(StreamingQueryListener):
    """Commits the end of each batch that is done. Over Spark Connect it runs, and ends, with the client."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        checkpoint: str | None = None,
        history: str | None = None,
        query: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """`query`: the name of the query; None for all queries of the session, which is right for one alone.

        `options`: those of the query's reader; its TLS and its login are used. Raises InvalidClientSecurity.
        """
        self._committer = GroupCommitter(bootstrap, group, checkpoint, security=security_of(options or {}))
        self._history = None if history is None else Path(history)
        self._query = query

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is done yet; Spark waits for this."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Commit the end of a batch."""
        try:
            progress = json.loads(event.progress.json)
            record = of_progress(progress)
            if record is not None and self._query in (None, progress.get("name")):
                self._note(record)
                self._committer.commit(record.committed)
        except Exception:  # a listener must not stop a query
            logger.exception("the progress of a query was not committed")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Keep the offsets of a query that waits for records."""
        try:
            self._committer.renew()
        except Exception:  # a listener must not stop a query
            logger.exception("the offsets of an idle query were not committed again")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Close the connection; a query that starts again opens another."""
        self._committer.close()

    def _note(self, record: BatchRecord) -> None:
        if self._history is None or record.rows <= 0:
            return
        try:
            with self._history.open("a", encoding="utf-8") as file:
                file.write(build_line(record) + "\n")
        except OSError as error:
            logger.warning("cannot write %s: %s", self._history, error)
