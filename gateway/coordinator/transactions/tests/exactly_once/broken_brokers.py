"""Brokers that are broken in one place each: histories have to find every one of them.

`BROKEN` has the name of each fault, and the attributes that it replaces: (owner, name, replacement). The replacements
take what the methods take that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.gateway.api.transactions.transaction_verification import TransactionVerification
from headgate.gateway.coordinator.coordinator import Coordinator
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.offsets import GroupOffsets
from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.transactions import initialization
from headgate.gateway.coordinator.transactions.marker_writer import EndingTransaction, RetryingMarkerWriter
from headgate.gateway.coordinator.transactions.transaction import NO_ID, Transaction
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import as_task, run
from headgate.storage.log.producers import Producers
from headgate.storage.segment.transactions import Transactions

MAX_HISTORIES = 1_000

Fault = tuple[tuple[Any, str, Any], ...]


def _skips_a_marker(self: Any, effect: Any, coordinator_epoch: int) -> Any:
    places = [(topic, index) for topic, indexes in effect.partitions.items() for index in indexes]
    kept = {topic: [index for each, index in places[1:] if each == topic] for topic, _ in places[1:]}
    return _write(self, effect._replace(partitions=kept), coordinator_epoch)


def _completes_before_markers(self: Any, effect: Any, coordinator_epoch: int) -> Any:
    run(_write(self, effect, coordinator_epoch))
    return as_task(True)


def _gives_up(*_: Any) -> bool:
    return True


def _forgets_pending(self: Any, data: Any) -> Iterator[None]:
    yield from _replay(self, data)
    offsets = getattr(self.shard, "offsets", None)
    if offsets is not None:
        offsets.pending.clear()


def _keeps_epoch(self: Any, transaction_version: int, now_ms: int) -> Any:
    return self._replace(producer_epoch=self.producer_epoch - 1).prepared(False, 2, NO_ID, now_ms)


def _keeps_epoch_in_new_protocol(self: Any, is_commit: bool, client_version: int, next_id: int, now_ms: int) -> Any:
    return _prepared(self, is_commit, 0, next_id, now_ms)


def _commits_aborted_offsets(self: Any, producer_id: int, is_commit: bool) -> None:
    _end_transaction(self, producer_id, True)


def _drops_committed_offsets(self: Any, producer_id: int, is_commit: bool) -> None:
    _end_transaction(self, producer_id, False)


def _checks_nothing(*_: Any, **_named: Any) -> None:
    """Nothing is checked, and nothing is known."""


def _does_not_resume(self: Any, now_ms: float) -> Iterator[None]:
    for key in self.transactions:
        self.note_due(key)
        yield


def _is_stable(shard: Any, wanted: Any, version: int, ticket: Any, _is_stable: bool) -> Any:
    return _fetch(shard, wanted, version, ticket, is_stable=False)


def _effects_at_once(self: Any, decision: Any) -> None:
    self._perform(decision.effects, self.replica.leader_epoch)


def _gives_the_holder(_shard: Any, _key: str, transaction: Any, _expected: Any, _version: int) -> Any:
    holder = transaction.holder
    return holder if holder.producer_epoch >= 0 else holder._replace(producer_epoch=0)


def _acknowledges_unsynced(self: Any) -> None:
    self.commits_at_write = True
    _advance(self)


def _asks_nobody(self: Any) -> Any:
    self._begin()
    return self._finish(self._codes(0))


_write = RetryingMarkerWriter.write
_replay, _prepared, _end_transaction = LogReplay.replay, Transaction.prepared, GroupOffsets.end_transaction
_fetch, _advance = offset_requests.fetch, Replica.advance_high_watermark
_transactions: Any = Transactions
_first_unstable = _transactions.first_unstable.fget
_checks = tuple((group, "check_transactional_commit", _checks_nothing) for group in (ClassicGroup, ConsumerGroup))

BROKEN: Final[dict[str, Fault]] = {
    "skips a marker": ((RetryingMarkerWriter, "write", _skips_a_marker),),
    "completes before markers": ((RetryingMarkerWriter, "write", _completes_before_markers),),
    "does not retry markers": ((EndingTransaction, "_is_over", _gives_up),),
    "forgets pending offsets in a load": ((LogReplay, "replay", _forgets_pending),),
    "a fence does not raise the epoch": ((Transaction, "fenced", _keeps_epoch),),
    "the new protocol does not raise the epoch": ((Transaction, "prepared", _keeps_epoch_in_new_protocol),),
    "gives the present epoch to the next producer": ((initialization, "_next", _gives_the_holder),),
    "commits the offsets of aborted transactions": ((GroupOffsets, "end_transaction", _commits_aborted_offsets),),
    "drops the offsets of committed transactions": ((GroupOffsets, "end_transaction", _drops_committed_offsets),),
    "takes offsets of other generations": _checks,
    "answers offsets that are not stable": ((offset_requests, "fetch", _is_stable),),
    "a load does not resume what was decided": ((TransactionShard, "start_clocks", _does_not_resume),),
    "writes markers before the decision is stored": ((Coordinator, "_defer_effects", _effects_at_once),),
    "the last stable offset is one too far": (
        (Transactions, "first_unstable", property(lambda self: _first_unstable(self) + 1)),
    ),
    "asks no coordinator about transactions": ((TransactionVerification, "_ask", _asks_nobody),),
    "takes any batch of a producer": ((Producers, "check", _checks_nothing),),
    "takes any marker": ((Producers, "check_marker", _checks_nothing),),
    "acknowledges before the sync": ((Replica, "advance_high_watermark", _acknowledges_unsynced),),
}
