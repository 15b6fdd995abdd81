"""The events of partitions and log directories, and their listeners.

The wiring (`gateway.app.composition`) fills these lists, in the order of the calls. No other module subscribes. This
module knows no log, file or thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica


@dataclass(slots=True)
class ReplicationEvents:
    """One list of listeners for each kind of event. All are called on the loop."""

    disk_failed: list[Callable[[str, object], None]] = field(default_factory=list)
    """(log directory, error): a write or a sync has failed."""
    disk_recovered: list[Callable[[str], None]] = field(default_factory=list)
    """(log directory): the disk accepts all writes again, or a log in the directory was repaired."""
    space_recovered: list[Callable[[str], None]] = field(default_factory=list)
    """(log directory): clients may produce again; the disk was nearly full."""
    replicas_failed: list[Callable[[], None]] = field(default_factory=list)
    """(): other replicas have failed than before, see `ReplicaManager.failed`; or one needs a higher leader epoch."""
    online: list[Callable[[str, int], None]] = field(default_factory=list)
    """(topic, index): a partition came online after the start of the broker."""
    truncated: list[Callable[[Replica], None]] = field(default_factory=list)
    """(replica): the log was truncated. State in memory that depends on the log has to be read again."""
