"""What happens to partitions and log directories, and who hears of it.

The wiring (`gateway.app.composition`) fills these lists, in the order in which listeners are called. Nothing else
subscribes. No log, file or thread is known here.
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
    """(log directory): the disk takes everything again, or a log in the directory was repaired."""
    space_recovered: list[Callable[[str], None]] = field(default_factory=list)
    """(log directory): clients may produce again, after the disk was nearly full."""
    epoch_needed: list[Callable[[], None]] = field(default_factory=list)
    """(): a partition needs a higher leader epoch; see `ReplicaManager.awaiting_epoch`."""
    online: list[Callable[[str, int], None]] = field(default_factory=list)
    """(topic, index): a partition has come online after the broker."""
    truncated: list[Callable[[Replica], None]] = field(default_factory=list)
    """(replica): the log ends earlier than it did. What is kept in memory of the log has to be read again."""
