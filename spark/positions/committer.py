"""Commits of a query's progress to a group without members, over one connection that is opened at need."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.spark.checkpoint import NextOffsets
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions import topic_ids
from headgate.spark.positions.checkpoint import open_folder
from headgate.tools.client.client import PLAINTEXT, ClientError
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups.offsets import OffsetAndMetadata, commit_offsets
from headgate.tools.output import UsageError

logger = logging.getLogger("headgate.spark")

_TIMEOUT_S: Final = 10.0
REPEAT_S: Final = 3600.0
"""After this time offsets are committed again though they have not changed: a group without members forgets them."""


class GroupCommitter:
    """The offsets of one query for one group. It can be pickled before its first use."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        checkpoint: str | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._group, self._checkpoint = group, checkpoint
        self._clock_s = clock_s
        self._cluster = Cluster(bootstrap, timeout_s=_TIMEOUT_S, security=security)
        self._committed: dict[TopicPartition, int] = {}
        self._all_due_s = 0.0
        self._noted: set[str] = set()

    def commit(self, offsets: NextOffsets) -> bool:
        """Commit the offsets that have changed. Returns False if that failed, which is logged."""
        is_due = self._clock_s() >= self._all_due_s
        changed = {partition: at for partition, at in offsets.items() if is_due or self._committed.get(partition) != at}
        try:
            if changed:
                self._commit(changed)
            self._note_ids(offsets)
        except (ClientError, UsageError) as error:
            self.close()
            logger.warning("the progress of group %s is not committed: %s", self._group, error)
            return False
        return self._committed.items() >= offsets.items()

    def renew(self) -> bool:
        """Commit the last offsets again if the group would forget them: a query without new records reports none."""
        return self.commit(dict(self._committed))

    def _commit(self, offsets: NextOffsets) -> None:
        rows = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        failed = commit_offsets(self._cluster, self._group, rows)
        for names, why in group_by_failure(failed):
            logger.warning("the progress of group %s in %s is not committed: %s", self._group, names, why.text)
        self._committed |= {partition: at for partition, at in offsets.items() if partition not in failed}
        if not failed:
            self._all_due_s = self._clock_s() + REPEAT_S

    def _note_ids(self, offsets: NextOffsets) -> None:
        """Note the ids of new topics in the checkpoint, and report recreated topics. Raises UsageError."""
        topics = {partition.topic for partition in offsets} - self._noted
        if self._checkpoint is None or not topics:
            return
        folder = open_folder(self._checkpoint)
        noted, present = topic_ids.read(folder), topic_ids.fetch(self._cluster, topics)
        for name, topic_id in present.ids.items():
            if noted.ids.get(name, topic_id) != topic_id:
                logger.error("topic %s was made anew since the query began: see `headgate spark check`", name)
        more = topic_ids.added(noted, present)
        if more is not None:
            topic_ids.write(folder, more)
        self._noted |= topics

    def close(self) -> None:
        """Close the connection; the next commit opens another."""
        self._cluster.close()
