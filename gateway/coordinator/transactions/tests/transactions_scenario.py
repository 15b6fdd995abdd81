"""What is asked of a broker to see its rules for transactions; `test_transactions_like_kafka` compares the answers.

    play(broker, level)     # any broker: `ask(request, version)` gives its response, `pause(ms)` lets time go on
    cd gateway/coordinator/transactions/tests
    python -m headgate.gateway.coordinator.transactions.tests.transactions_scenario PORT PORT PORT PORT > \
        transactions_of_kafka.txt

The last line records the answers of four new Apache Kafkas on this machine with `SETTINGS`, those of `KAFKAS`: 4.1.2 at
each level of the feature transaction.version (KIP-890), and 3.9.1, which has no such feature. Standard error says when
to restart each of them.

Every step has transactional ids of its own, so that a version that one broker does not serve changes no other answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headgate.gateway.coordinator.transactions.tests.transaction_play import Broker, Play, Producer, Remote, Topics
from headgate.gateway.coordinator.transactions.tests.transaction_repetitions import REPETITIONS, restarted_repetitions
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headgate.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
WITHOUT_FEATURE = -1
KAFKAS = {"4.1 at level 2": 2, "4.1 at level 1": 1, "4.1 at level 0": 0, "3.9": WITHOUT_FEATURE}
_UPGRADE, _DOWNGRADE = 1, 2
_NOBODY = 987_654


def play(broker: Broker, level: int) -> dict[str, str]:
    """Ask everything, in this order; the answers by their names."""
    made = Play(broker, level)
    if level != WITHOUT_FEATURE:
        set_level(made, level)
    broker.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["first"]), 4)
    made.topics(t=3, u=1)
    for step in STEPS:
        step(made)
    if level != WITHOUT_FEATURE:
        _levels(made)
        set_level(made, level, "for the restart")
    restarted_repetitions(made)
    made.log("__transaction_state")
    made.log("__consumer_offsets")
    return made.answers


def set_level(made: Play, level: int, when: str = "at first") -> None:
    """Finalize transaction.version at this level."""
    features = made.broker.ask(ApiVersionsRequest("headgate", "1"), 4).finalized_features
    levels = [row.max_version_level for row in features if row.name == "transaction.version"] or [0]
    if levels != [level]:
        kind = _UPGRADE if level > levels[0] else _DOWNGRADE
        update = FeatureUpdateKey("transaction.version", level, kind != _UPGRADE, kind)
        made.ask(f"to {level} from {levels[0]}, {when}", UpdateFeaturesRequest(60_000, [update]), 2)
        made.level = level


def _coordinators(made: Play) -> None:
    for version in range(7):
        made.ask("transactional", FindCoordinatorRequest("x", TRANSACTION, ["x", "y"]), version)
        if version >= 1:
            made.ask("empty", FindCoordinatorRequest("", TRANSACTION, [""]), version)


def _inits(made: Play) -> None:
    for version in range(6):
        made.ask("idempotent", InitProducerIdRequest(None, 0), version)
        made.ask("empty id", InitProducerIdRequest("", 60_000), version)
        one = Producer(made, f"init{version}")
        for times in ("first", "second", "third"):
            one.init(times, version)
        one.state(f"after three of version {version}")
        for timeout_ms in (0, -1, 900_000, 900_001):
            Producer(made, f"timeout{version}", timeout_ms).init(f"timeout {timeout_ms}", version)
    for version in (3, 4, 5):
        made.ask("idempotent, with an id", InitProducerIdRequest(None, 0, 7, 7), version)
        one = Producer(made, f"own{version}")
        one.init(version=version)
        first = one.producer_id
        one.init("own epoch", version, producer_id=first, producer_epoch=0)
        one.init("own epoch again", version, producer_id=first, producer_epoch=0)
        one.init("next epoch", version, producer_id=first, producer_epoch=1)
        for label, producer_id, epoch in (
            ("epoch of before", first, 0),
            ("epoch of later", first, 9),
            ("another id", _NOBODY, 2),
            ("id without epoch", first, -1),
            ("epoch without id", -1, 2),
        ):
            one.init(label, version, producer_id=producer_id, producer_epoch=epoch)
            one.state(f"after {label}, version {version}")
        Producer(made, f"new{version}").init("a new one with an id", version, producer_id=_NOBODY, producer_epoch=3)


def _partitions(made: Play) -> None:
    for version in range(4):
        Producer(made, f"none{version}").add("an unknown id", {"t": [0]}, version)
        one = Producer(made, f"add{version}")
        one.init()
        one.init("next epoch")
        one.add("unknown partitions", {"t": [0, 7], "gone": [0], "u": [0]}, version)
        one.state(f"after unknown partitions, version {version}")
        one.add("known", {"t": [0, 2], "u": [0]}, version)
        one.add("again", {"t": [0]}, version)
        one.add("more", {"t": [1]}, version)
        one.add("nothing", {}, version)
        one.add("no partitions", {"t": []}, version)
        one.add("an internal topic", {"__transaction_state": [0]}, version)
        one.add("bad name", {"a b": [0]}, version)
        for label, overrides in _strangers(one):
            one.add(label, {"t": [0]}, version, **overrides)
        one.state(f"ongoing, version {version}")
        one.init("while it is ongoing")
        one.settle()
        one.state(f"fenced, version {version}")
        one.add("fenced", {"t": [0]}, version)
        one.init("after it was aborted")
        one.state(f"new, version {version}")


def _strangers(one: Producer) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("another producer id", {"producer_id": _NOBODY}),
        ("an older epoch", {"producer_epoch": one.epoch - 1}),
        ("a newer epoch", {"producer_epoch": one.epoch + 1}),
        ("another transactional id", {"transactional_id": "nobody's"}),
        ("an empty id", {"transactional_id": ""}),
    ]


Many = tuple[Producer, Topics, bool]
"""A producer, its partitions, and whether they are only verified."""


def _many_partitions(made: Play) -> None:
    """As brokers ask since KIP-890."""
    for version in (4, 5):
        first, second = Producer(made, f"many{version}a"), Producer(made, f"many{version}b")
        first.init()
        second.init()
        first.add("one", {"t": [0]})
        known: Many = (first, {"t": [0]}, True)
        _ask_many(made, version, "verify", known)
        _ask_many(made, version, "verify, not added", (first, {"t": [0, 1], "u": [0]}, True))
        _ask_many(made, version, "verify, empty", (second, {"t": [0]}, True))
        _ask_many(made, version, "verify, an unknown partition", (first, {"t": [9], "gone": [0]}, True))
        _ask_many(made, version, "verify, unknown", (Producer(made, "nobody's"), {"t": [0]}, True))
        _ask_many(made, version, "verify, another producer id", known, producer_id=_NOBODY)
        _ask_many(made, version, "verify, an older epoch", known, producer_epoch=-1)
        _ask_many(made, version, "verify, a newer epoch", known, producer_epoch=5)
        if made.has_new_protocol:
            both: tuple[Many, Many] = ((first, {"t": [1]}, False), (second, {"u": [0], "t": [2]}, False))
            _ask_many(made, version, "both", *both)
            _ask_many(made, version, "one unknown", (first, {"gone": [1]}, False), (second, {"t": [0]}, False))
            _ask_many(made, version, "an older epoch", (second, {"t": [1]}, False), producer_epoch=-1)
            _ask_many(made, version, "no topics", (first, {}, False))
        for one in (first, second):
            one.state(f"after many, version {version}")
            one.end(f"after many, version {version}", commit=False)
        _ask_many(made, version, "verify, after its end", known)


def _ask_many(made: Play, version: int, label: str, *rows: Many, **overrides: Any) -> None:
    asked = [
        AddPartitionsToTxnTransaction(
            **one.identity(overrides),
            verify_only=is_verifying,
            topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
        )
        for one, topics, is_verifying in rows
    ]
    made.ask(label, AddPartitionsToTxnRequest(asked), version)


def _ends(made: Play) -> None:
    for version in range(6 if made.has_new_protocol else 5):
        Producer(made, f"endless{version}").end("an unknown id", version=version)
        for commit in (True, False):
            word, other = ("commit", "abort") if commit else ("abort", "commit")
            one = Producer(made, f"{word}{version}")
            one.init()
            one.init("next epoch")
            for label, overrides in _strangers(one):
                one.end(f"{word}, {label}", commit=commit, version=version, **overrides)
            one.end(f"{word} of nothing", commit=commit, version=version)
            one.state(f"{word} of nothing, version {version}")
            one.add("one", {"t": [0]})
            before = one.producer_id, one.epoch
            one.end(f"{word}", commit=commit, version=version)
            one.state(f"{word}, version {version}")
            after = one.producer_id, one.epoch
            one.adopt(*before)
            one.end(f"{word} again", commit=commit, version=version)
            one.end(f"{other} after {word}", commit=not commit, version=version)
            one.adopt(*after)
            one.end(f"{word} with the next epoch", commit=commit, version=version)
            one.adopt(*after)
            one.add("next", {"t": [1]})
            one.state(f"next after {word}, version {version}")
            one.end(f"next {word}", commit=commit, version=version)
            one.init("in the end")
            one.state(f"in the end, {word}, version {version}")


def _writes(made: Play) -> None:
    """Produce of the old protocol: to partitions that were added, to others, by zombies."""
    for version in (3, 8, 9, 11):
        made.topics(**{f"w{version}": 2})
        topic = f"w{version}"
        one = Producer(made, f"write{version}")
        one.init()
        one.init("next epoch")
        one.send("not added", topic, version=version)
        one.add("one", {topic: [0]})
        one.send("not added, in a transaction", topic, 1, version=version)
        one.send("added", topic, version=version)
        made.ends(f"open, version {version}", topic)
        made.producers(f"open, version {version}", topic)
        made.fetch(f"open, committed, version {version}", topic)
        made.fetch(f"open, all, version {version}", topic, committed=False)
        one.send("more", topic, version=version)
        one.send("the last one again", topic, version=version, sequence=2)
        one.send("a gap", topic, version=version, sequence=40)
        one.send("without the bit", topic, version=version, is_transactional=False)
        one.send("an older epoch", topic, version=version, producer_epoch=one.epoch - 1, sequence=0)
        one.send("another id", topic, version=version, sequence=4, transactional_id="nobody's")
        one.end("commit")
        made.ends(f"committed, version {version}", topic)
        made.fetch(f"committed, version {version}", topic)
        one.send("after the end", topic, version=version)
        one.add("once more", {topic: [0, 1]})
        one.send("aborted", topic, version=version)
        one.send("aborted, elsewhere", topic, 1, version=version)
        one.end("abort", commit=False)
        one.send("after the abort", topic, version=version)
        made.fetch(f"aborted, version {version}", topic)
        made.fetch(f"aborted, elsewhere, version {version}", topic, 1)
        made.producers(f"aborted, version {version}", topic)
        one.add("a third time", {topic: [0]})
        zombie = Producer(made, f"write{version}")
        zombie.adopt(one.producer_id, one.epoch)
        zombie.sequences = dict(one.sequences)
        one.send("open when it is fenced", topic, version=version)
        one.init("fences")
        one.settle()
        zombie.send("by a zombie", topic, version=version, sequence=8)
        made.fetch(f"fenced, version {version}", topic)
        made.producers(f"fenced, version {version}", topic)
        stray = Producer(made, f"stray{version}")
        stray.init()
        stray.add("one", {topic: [1]})
        stray.send("a newer epoch", topic, 1, version=version, producer_epoch=stray.epoch + 1)
        stray.end("a newer epoch", commit=False)


def _writes_of_the_new_protocol(made: Play) -> None:
    """Produce 12 adds partitions by itself; EndTxn 5 gives a new epoch (KIP-890)."""
    if not made.has_new_protocol:
        return
    made.topics(n=2, m=1)
    one = Producer(made, "new")
    one.init(version=5)
    one.send("first", "n", version=12)
    one.state("after the first")
    one.send("second", "n", 1, version=12)
    one.send("not from 0", "m", version=12, sequence=4)
    one.state("after the second")
    made.ends("open, new", "n")
    one.end("commit", version=5)
    made.fetch("committed, new", "n")
    one.send("next", "n", version=12)
    made.producers("next, new", "n")
    one.send("a gap", "n", version=12, sequence=50)
    zombie = Producer(made, "new")
    zombie.adopt(one.producer_id, one.epoch)
    one.end("abort", commit=False, version=5)
    zombie.send("by a zombie", "n", version=12, sequence=2)
    zombie.send("by an old zombie", "n", version=11, sequence=2)
    zombie.add("by a zombie", {"n": [0]})
    one.send("by id", "n", version=13)
    one.send("by no id", "gone", version=13)
    one.state("before the commit by id")
    one.end("commit by id", version=5)
    made.fetch("in the end, new", "n")
    made.fetch("in the end, elsewhere, new", "n", 1)
    made.producers("in the end, new", "n")


def _fenced_in_the_new_protocol(made: Play) -> None:
    """A transaction of the new protocol meets another producer with its id, and its timeout."""
    if not made.has_new_protocol:
        return
    made.topics(f=1, d=1)
    for name, topic in (("new-fenced", "f"), ("new-overdue", "d")):
        one = Producer(made, name, 60_000 if topic == "f" else 400)
        one.init(version=5)
        one.send("first", topic, version=12)
        zombie = Producer(made, name)
        zombie.adopt(one.producer_id, one.epoch)
        if topic == "f":
            one.init("while it is ongoing", 5)
        one.settle(until="CompleteAbort")
        one.state("aborted")
        made.fetch(f"{name}, aborted", topic)
        made.producers(f"{name}, aborted", topic)
        zombie.send("by a zombie", topic, version=12, sequence=2)
        zombie.send("by a zombie from 0", topic, version=12, sequence=0)
        zombie.send("by an old zombie", topic, version=11, sequence=2)
        for label, commit, version in (("commit", True, 5), ("abort", False, 5), ("old abort", False, 4)):
            zombie.adopt(one.producer_id, 0)
            zombie.end(f"{label} by a zombie", commit=commit, version=version)
            one.state(f"after {label} by a zombie")
        one.init("with its epoch", 5, producer_id=one.producer_id, producer_epoch=0)
        one.init("anew", 5)
        one.send("anew", topic, version=12)
        one.end("anew", version=5)
        made.fetch(f"{name}, anew", topic)


def _offsets(made: Play) -> None:
    """TxnOffsetCommit by a producer without a group member."""
    for version in range(6 if made.has_new_protocol else 5):
        group = f"g{version}"
        one = Producer(made, f"offsets{version}")
        one.init()
        one.init("next epoch")
        if version < 5:
            one.commit_offsets("not added", group, {"t": {0: 1}}, version)
        one.add_group("add", group)
        one.state(f"with a group, version {version}")
        one.commit_offsets("known and unknown", group, {"t": {0: 5, 9: 1}, "gone": {0: 1}}, version)
        one.commit_offsets("nothing", group, {}, version)
        made.committed(f"pending, version {version}", group, "t")
        made.committed(f"pending, stable, version {version}", group, "t", stable=True)
        one.commit_offsets("further", group, {"t": {0: 6, 1: 3}}, version)
        for label, overrides in _strangers(one):
            if label != "a newer epoch":  # Kafka 3.9 takes it, and its own marker no more: the transaction never ends
                one.commit_offsets(label, group, {"t": {1: 77}}, version, **overrides)
        one.end("commit")
        made.committed(f"committed, version {version}", group, "t", stable=True)
        one.add_group("add again", group)
        one.commit_offsets("dropped", group, {"t": {0: 9}}, version)
        one.end("abort", commit=False)
        made.committed(f"aborted, version {version}", group, "t", stable=True)
        one.commit_offsets("after the end", group, {"t": {2: 2}}, version)
        made.committed(f"after the end, version {version}", group, "t", stable=True)
        one.end("in the end", commit=False)
        if version >= 3:
            members: dict[str, dict[str, Any]] = {
                "of a generation": {"generation_id_or_member_epoch": 1},
                "of a member": {"member_id": "m", "generation_id_or_member_epoch": 1},
                "of a name": {"member_id": "m"},
                "of an instance": {"group_instance_id": "i"},
            }
            for label, fields in members.items():
                one.add_group(f"add {label}", group)
                one.commit_offsets(label, group, {"t": {0: 50}}, version, **fields)
                one.end(f"abort {label}", commit=False)


def _groups_added(made: Play) -> None:
    for version in range(5):
        Producer(made, f"stranger{version}").add_group("an unknown id", "g", version)
        one = Producer(made, f"group{version}")
        one.init()
        one.init("next epoch")
        one.add_group("first", "g", version)
        one.add_group("again", "g", version)
        one.add_group("another group", "h", version)
        one.add_group("no group", "", version)
        for label, overrides in _strangers(one):
            one.add_group(label, "g", version, **overrides)
        one.state(f"groups, version {version}")
        one.end("abort", commit=False)


def _lists(made: Play) -> None:
    made.topics(l=1)
    one = Producer(made, "listed-open")
    one.init()
    one.add("one", {"l": [0]})
    two = Producer(made, "listed-done")
    two.init()
    two.add("one", {"l": [0]})
    two.end("commit")
    names = ["listed-open", "listed-done", "nobody's", ""]
    made.ask("some", DescribeTransactionsRequest(names), 0)
    made.ask("nothing", DescribeTransactionsRequest([]), 0)
    for version in range(3):
        made.ask("by state", ListTransactionsRequest(["Ongoing", "Loud", "ongoing"]), version)
        made.ask("by producer", ListTransactionsRequest([], [two.producer_id, _NOBODY]), version)
        made.ask("by both", ListTransactionsRequest(["Ongoing"], [two.producer_id, one.producer_id]), version)
        made.ask("by no such state", ListTransactionsRequest(["Loud"]), version)
    made.ask("young", ListTransactionsRequest(duration_filter=600_000), 1)
    for pattern in ("listed-.*", "listed", "", "("):
        made.ask(f"pattern {pattern}", ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    one.end("abort", commit=False)


def _timeouts(made: Play) -> None:
    made.topics(o=1)
    one = Producer(made, "overdue", 400)
    one.init()
    one.add("one", {"o": [0]})
    one.send("one", "o")
    one.settle(until="CompleteAbort")
    one.state("overdue")
    made.fetch("overdue", "o")
    made.producers("overdue", "o")
    one.send("after the time-out", "o")
    one.add("after the time-out, version 1", {"o": [0]}, 1)
    one.add("after the time-out", {"o": [0]})
    one.add_group("after the time-out", "g")
    before = one.producer_id, one.epoch
    for version in (1, 4, 5):
        one.end("after the time-out", version=version)
        one.end("abort after the time-out", commit=False, version=version)
        one.state(f"after the time-out, version {version}")
    one.adopt(*before)
    one.init("with its epoch", producer_id=one.producer_id, producer_epoch=one.epoch)
    one.init("anew")
    one.state("anew after the time-out")
    made.ask("overdue", ListTransactionsRequest(transactional_id_pattern="overdue"), 2)


def _markers(made: Play) -> None:
    """WriteTxnMarkers, as another coordinator or an operator sends it."""
    made.topics(k=3)
    one = Producer(made, "marked")
    one.init()
    one.init("next epoch")
    one.add("one", {"k": [0]})
    one.send("one", "k")

    def mark(label: str, version: int, topics: dict[str, list[int]], **overrides: Any) -> None:
        fields: dict[str, Any] = {
            "producer_id": one.producer_id,
            "producer_epoch": one.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            **overrides,
        }
        rows = [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()]
        made.ask(label, WriteTxnMarkersRequest([WritableTxnMarker(**fields, topics=rows)]), version)

    for version in range(3):
        mark("an older epoch", version, {"k": [0]}, producer_epoch=0)
        mark("unknown partitions", version, {"k": [9], "gone": [0]})
        mark("an unknown producer", version, {"k": [2]}, producer_id=_NOBODY, producer_epoch=2)
        mark("nothing", version, {})
    made.producers("before the marker", "k")
    mark("abort", 1, {"k": [0]})
    made.fetch("after the marker", "k")
    made.producers("after the marker", "k")
    mark("again", 1, {"k": [0]})
    nobody = {"producer_id": _NOBODY, "producer_epoch": 2}
    mark("by a newer coordinator", 1, {"k": [1]}, coordinator_epoch=3, **nobody)
    mark("by an older coordinator", 1, {"k": [1]}, coordinator_epoch=2, **nobody)
    mark("by a newer coordinator again", 1, {"k": [1]}, coordinator_epoch=4, transaction_result=True, **nobody)
    made.fetch("after the coordinators", "k", 1)
    made.producers("after the coordinators", "k", 1)
    made.fetch("after two markers", "k")
    one.end("commit")
    made.fetch("after the end, marked", "k")


def _levels(made: Play) -> None:
    """Levels change while transactions are open."""
    made.topics(v=2)
    set_level(made, 2, "before")
    first, second = Producer(made, "level-first"), Producer(made, "level-second")
    for one, index in ((first, 0), (second, 1)):
        one.init(version=5)
        one.add("old", {"v": [index]})
        one.send("old", "v", index)
    set_level(made, 1, "while they are open")
    first.end("old at level 1")
    set_level(made, 2, "while one is open")
    second.end("new at level 2", version=5)
    for one, index in ((first, 0), (second, 1)):
        one.state("after its end")
        one.send("new at level 2", "v", index, version=12)
    set_level(made, 1, "while new ones are open")
    first.end("new at level 1", version=5)
    second.end("old at level 1")
    for one, index in ((first, 0), (second, 1)):
        one.state("at level 1")
        one.init("at level 1")
        one.send("new at level 1", "v", index, version=12)
        one.end("new at level 1, the last", version=5, commit=False)
        made.fetch(f"of {one.name}", "v", index)
    set_level(made, 0, "in the end")
    third = Producer(made, "level-third")  # Kafka cannot store those any more that have been used in the new protocol
    third.init("at level 0")
    third.add("at level 0", {"v": [0]})
    third.send("at level 0", "v")
    third.end("at level 0")
    third.state("at level 0")


def _members(made: Play) -> None:
    """TxnOffsetCommit by members of groups, and by those who are none (KIP-447)."""
    made.broker.ask(FindCoordinatorRequest(coordinator_keys=["classic3"]), 4)
    made.topics(joined=1)
    for version in (3, 4, 5):
        if version >= 5 and not made.has_new_protocol:
            continue
        for kind in ("classic", "static", "consumer"):
            group = f"{kind}{version}"
            member = _member(made, group, kind)
            if member is None:
                continue
            member_id, generation = member
            instance = "i" if kind == "static" else None
            one = Producer(made, f"in-{group}")
            one.init()
            if version < 5:
                one.add_group("add", group)
            for offset, (label, who) in enumerate(
                {
                    "the member": (member_id, generation, instance),
                    "of an older generation": (member_id, generation - 1, instance),
                    "of a later generation": (member_id, generation + 1, instance),
                    "of no generation": (member_id, -1, instance),
                    "another member": ("somebody", generation, None),
                    "another member of the instance": ("somebody", generation, "i"),
                    "of another instance": (member_id, generation, "j"),
                    "of no instance": (member_id, generation, None),
                    "nobody": ("", -1, None),
                    "nobody, of a generation": ("", generation, None),
                }.items()
            ):
                names = ("member_id", "generation_id_or_member_epoch", "group_instance_id")
                fields = dict(zip(names, who, strict=True))
                one.commit_offsets(label, group, {"joined": {0: offset}}, version, **fields)
            one.end("commit", version=5 if version == 5 else 3)
            made.committed(f"of {one.name}", group, "joined", stable=True)


def _member(made: Play, group: str, kind: str) -> tuple[str, int] | None:
    """A new member of a group, and its generation; None if there is no such protocol."""
    ask = made.broker.ask
    if kind == "consumer":
        beat = ConsumerGroupHeartbeatRequest(
            group, "member", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["joined"], topic_partitions=[]
        )
        answer = ask(beat, 1)
        return None if answer is None or answer.error_code else ("member", answer.member_epoch)
    member_id, instance = "", "i" if kind == "static" else None
    for _ in range(2):  # the first answer may have the id only
        protocols = [JoinGroupRequestProtocol("any", b"")]
        joined = ask(JoinGroupRequest(group, 600_000, 600_000, member_id, instance, "copiers", protocols), 5)
        member_id = joined.member_id
    rows = [SyncGroupRequestAssignment(member_id, b"")]
    ask(SyncGroupRequest(group, joined.generation_id, member_id, instance, assignments=rows), 3)
    return member_id, joined.generation_id


def _exhausted(made: Play) -> None:
    """Epochs end at 32767, of which the last is kept for a fence; then there is a new producer id."""
    made.topics(last=4)
    for kind, use in _EXHAUSTED.items():
        if kind.startswith("new") and not made.has_new_protocol:
            continue
        one = Producer(made, f"exhausted-{kind}")
        one.init()
        made.broker.renew(one.name, LAST_EPOCHS - 1)
        one.init("next to the last epoch")
        one.init("the last epoch")
        last = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
        use(one)
        one.state("in the end")
        one.init("the last one again", **last)
        one.init("at last")
        one.state("at last")


def _exhausted_init(one: Producer) -> None:
    last: dict[str, Any] = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    one.init("own epoch", **last)
    one.state("with a new id")
    one.init("own epoch again", **last)
    one.init("an older one", **{**last, "producer_epoch": one.epoch + 5})


def _exhausted_old(one: Producer) -> None:
    one.add("in the last epoch", {"last": [0]})
    one.send("in the last epoch", "last")
    one.end("in the last epoch")
    one.state("after the last epoch")
    one.end("again")


def _exhausted_fenced(one: Producer) -> None:
    one.add("in the last epoch", {"last": [1]})
    one.send("in the last epoch", "last", 1)
    one.init("while it is open")
    one.settle()
    one.state("fenced")
    one.end("fenced")
    one.made.fetch("of a fenced last epoch", "last", 1)


def _exhausted_new(one: Producer) -> None:
    last: dict[str, Any] = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    one.send("in the last epoch", "last", 2, version=12)
    one.state("in the last epoch")
    one.end("in the last epoch", version=5)
    one.state("after the last epoch")
    one.end("again", version=5, **last)
    one.end("again, otherwise", version=5, commit=False, **last)
    one.send("with a new id", "last", 2, version=12)
    one.end("with a new id", version=5)
    one.end("of the last epoch, later", version=5, **last)
    one.made.fetch("of a new id", "last", 2)


def _exhausted_new_fenced(one: Producer) -> None:
    last: dict[str, Any] = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    one.send("in the last epoch", "last", 3, version=12)
    one.init("while it is open", version=5)
    one.settle()
    one.state("fenced")
    for is_commit in (True, False):
        one.end(f"fenced, {is_commit}", version=5, commit=is_commit, **last)
    one.made.fetch("of a fenced last epoch, new", "last", 3)


LAST_EPOCHS = 32_765
_EXHAUSTED = {
    "init": _exhausted_init,
    "old": _exhausted_old,
    "fenced": _exhausted_fenced,
    "new": _exhausted_new,
    "new-fenced": _exhausted_new_fenced,
}
STEPS: list[Callable[[Play], None]] = [
    _coordinators,
    _inits,
    _partitions,
    _many_partitions,
    _ends,
    _writes,
    _writes_of_the_new_protocol,
    _fenced_in_the_new_protocol,
    _groups_added,
    _offsets,
    _lists,
    _timeouts,
    _markers,
    _members,
    _exhausted,
    *REPETITIONS,
]


def record(ports: Iterable[str]) -> Iterator[str]:
    """A line for each answer: who gave it, the question, the answer."""
    answers: dict[tuple[str, str], list[str]] = {}
    for (kafka, level), port in zip(KAFKAS.items(), ports, strict=True):
        for pair in play(Remote(int(port)), level).items():
            answers.setdefault(pair, []).append(kafka)
    for (name, answer), kafkas in sorted(answers.items()):
        yield f"{', '.join(kafkas)}\t{name}\t{answer}\n"


if __name__ == "__main__":
    sys.stdout.writelines(record(sys.argv[1:]))
