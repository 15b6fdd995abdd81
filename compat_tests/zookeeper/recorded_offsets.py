"""Record what Apache Kafka answers to OffsetCommit 0 and OffsetFetch 0, and what is in ZooKeeper afterwards.

    python -m compat_tests.zookeeper.recorded_offsets record

records Kafka 0.8.2.2, 2.8.2 and 3.9.1 into gateway/zookeeper/tests/offsets_of_kafka.txt: one line for each case, its
fields between tabs: the version, the name, the API and its version, the body of the request in hexadecimal digits, the
answer behind its correlation id in hexadecimal digits (or `closed`), and the data of the case's node as a literal of
Python (or `absent`). `test_offsets.py` asks Headgate the same.

The topic is `t`, with two partitions. A case first writes the data of its node, if it has any.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient

from compat_tests.harness import wire
from compat_tests.harness.apache_kafka import QUICK_START, ROOT, KafkaOnZooKeeper, run_tool
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper

TARGET: Final = ROOT / "gateway" / "zookeeper" / "tests" / "offsets_of_kafka.txt"
JAR_SETS: Final = {"0.8.2.2": "broker08", "2.8.2": "broker28", "3.9.1": "broker39"}
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
UNKNOWN_PARTITION: Final = 3
TOPIC: Final = "t"
ABSENT: Final = "absent"
CLOSED: Final = "closed"
Partitions = Sequence[tuple[int, int, str | None]]


class Case(NamedTuple):
    """One request; `node` is the path whose data are recorded afterwards, `given` what is written there before.

    `given` has one value, None for null data, or none.
    """

    name: str
    key: int
    version: int
    body: bytes
    node: str = ""
    given: tuple[bytes | None, ...] = ()


class Outcome(NamedTuple):
    """The answer behind its correlation id, None if the connection was closed; the data of the node."""

    answer: bytes | None
    data: str


def text(value: str | None) -> bytes:
    """A nullable string."""
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def commit(group: str, topics: Sequence[tuple[str, Partitions]]) -> bytes:
    """OffsetCommit 0: partition, offset, metadata."""
    rows = [
        text(topic) + array([struct.pack(">iq", one, offset) + text(note) for one, offset, note in partitions])
        for topic, partitions in topics
    ]
    return text(group) + array(rows)


def fetch(group: str, topics: Sequence[tuple[str, Sequence[int]]]) -> bytes:
    """OffsetFetch 0 and 1."""
    return text(group) + array(
        [text(topic) + array([struct.pack(">i", one) for one in ones]) for topic, ones in topics]
    )


def commits_to_coordinator(version: int, group: str, offset: int) -> bytes:
    """OffsetCommit 1 and 2 of partition 0, outside of any generation."""
    times = struct.pack(">q", -1)
    row = struct.pack(">iq", 0, offset) + (times if version == 1 else b"") + text("")
    member = text(group) + struct.pack(">i", -1) + text("") + (times if version == 2 else b"")
    return member + array([text(TOPIC) + array([row])])


def path(group: str, partition: int | str = 0, topic: str = TOPIC) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"


def commit_cases() -> Iterator[Case]:
    def one(name: str, *partitions: tuple[int, int, str | None], group: str = "g", topic: str = TOPIC) -> Case:
        node = path(group, partitions[0][0] if partitions else 0, topic)
        return Case(f"commit: {name}", OFFSET_COMMIT, 0, commit(group, [(topic, partitions)]), node)

    yield one("the first", (0, 41, ""))
    yield one("the same again", (0, 41, ""))
    yield one("backwards", (0, 7, ""))
    yield one("with metadata", (0, 42, "a note"))
    yield one("with null metadata", (0, 43, None))
    yield one("metadata of 4096 bytes", (0, 44, "m" * 4096))
    yield one("metadata of 4097 bytes", (0, 45, "m" * 4097))
    yield one("metadata of 3000 letters of two bytes", (0, 46, "ä" * 3000))
    yield one("offset 0", (0, 0, ""))
    yield one("offset -1", (0, -1, ""))
    yield one("offset -2", (0, -2, ""))
    yield one("the greatest offset", (0, (1 << 63) - 1, ""))
    yield one("behind the end of the partition", (1, 1_000_000, ""))
    yield one("two partitions", (0, 50, ""), (1, 51, ""))
    yield one("a partition twice", (0, 52, ""), (0, 53, ""))
    yield one("a partition beside one that does not exist", (0, 54, ""), (9, 55, ""))
    yield one("a partition beside one with large metadata", (0, 56, ""), (1, 57, "m" * 5000))
    yield one("a partition that does not exist", (9, 60, ""), group="g-partition")
    yield one("partition -1", (-1, 61, ""), group="g-partition")
    yield one("a topic that does not exist", (0, 62, ""), topic="unknown")
    yield one("a name that no topic has", (0, 63, ""), topic="a/b")
    yield one("no name of a topic", (0, 64, ""), topic="")
    yield one("a group with a slash", (0, 65, ""), group="a/b")
    yield one("a group with a space", (0, 66, ""), group="a b")
    yield one("the group .", (0, 67, ""), group=".")
    yield one("no name of a group", (0, 68, ""), group="")
    yield one("a group in Chinese", (0, 69, ""), group="组")
    yield one("a group beyond the Basic Multilingual Plane", (0, 70, ""), group="g\U0001f600")
    yield one("no partitions")
    yield Case("commit: no topics", OFFSET_COMMIT, 0, commit("g", []), path("g"))
    twice = commit("g", [(TOPIC, [(0, 71, "")]), (TOPIC, [(1, 72, "")])])
    yield Case("commit: a topic twice", OFFSET_COMMIT, 0, twice, path("g"))
    beside = commit("g", [(TOPIC, [(0, 73, "")]), ("unknown", [(0, 74, "")])])
    yield Case("commit: a topic beside one that does not exist", OFFSET_COMMIT, 0, beside, path("g"))


def fetch_cases() -> Iterator[Case]:
    def one(name: str, group: str, *partitions: int, topic: str = TOPIC, given: tuple[bytes | None, ...] = ()) -> Case:
        node = path(group, partitions[0] if partitions else 0, topic)
        return Case(f"fetch: {name}", OFFSET_FETCH, 0, fetch(group, [(topic, partitions)]), node, given)

    yield one("what is there", "f", 0, given=(b"41",))
    yield one("a node that is missing", "f", 1)
    yield one("one that is there and one that is not", "f", 0, 1)
    yield one("a partition twice", "f", 0, 0)
    yield one("a group that does not exist", "nobody", 0, 1)
    yield one("a partition that does not exist", "f", 9)
    yield one("a partition that does not exist, with a node", "f-partition", 9, given=(b"5",))
    yield one("partition -1", "f", -1)
    yield one("a topic that does not exist", "f", 0, topic="unknown")
    yield one("a topic that does not exist, with a node", "f-topic", 0, topic="unknown", given=(b"5",))
    yield one("a name that no topic has", "f", 0, topic="a/b")
    yield one("no name of a topic", "f", 0, topic="")
    yield one("a group with a slash", "a/b", 0)
    yield one("no name of a group", "", 0)
    yield one("the group .", ".", 0)
    yield one("no partitions", "f")
    yield Case("fetch: no topics", OFFSET_FETCH, 0, fetch("f", []), path("f"))
    given: dict[str, bytes | None] = {
        "offset 0": b"0",
        "offset -1": b"-1",
        "offset -2": b"-2",
        "the greatest offset": b"9223372036854775807",
        "greater than any offset": b"9223372036854775808",
        "zeros in front": b"0041",
        "a plus in front": b"+41",
        "a space behind": b"41 ",
        "a new line behind": b"41\n",
        "an underscore": b"4_1",
        "digits of other scripts": "٤١".encode(),
        "a fraction": b"41.0",
        "no number": b"forty-one",
        "bytes that are no text": b"\xff\xfe",
        "no bytes": b"",
        "null": None,
        "JSON": b'{"offset":41}',
    }
    for index, (name, data) in enumerate(given.items()):
        yield one(f"data: {name}", f"data{index}", 0, given=(data,))
    mixed = fetch("mixed", [(TOPIC, [0, 1]), ("unknown", [0])])
    yield Case("fetch: beside data that are no number", OFFSET_FETCH, 0, mixed, path("mixed"), (b"no number",))


def store_cases() -> Iterator[Case]:
    """The two stores beside each other."""
    asked = fetch("both", [(TOPIC, [0])])
    node = path("both")
    yield Case("stores: commit 0", OFFSET_COMMIT, 0, commit("both", [(TOPIC, [(0, 10, "")])]), node)
    yield Case("stores: fetch 1 after commit 0", OFFSET_FETCH, 1, asked, node)
    yield Case("stores: commit 1", OFFSET_COMMIT, 1, commits_to_coordinator(1, "both", 20), node)
    yield Case("stores: fetch 1 after commit 1", OFFSET_FETCH, 1, asked, node)
    yield Case("stores: fetch 0 after commit 1", OFFSET_FETCH, 0, asked, node)
    missing = fetch("both", [(TOPIC, [1, 9]), ("unknown", [0])])
    yield Case("stores: fetch 1 of what is missing", OFFSET_FETCH, 1, missing, node)


CASES: Final = (*commit_cases(), *fetch_cases(), *store_cases())


def outcomes(bootstrap: str, connect: str, cases: Sequence[Case] = CASES) -> Iterator[tuple[Case, Outcome]]:
    """Ask each case in its turn; the topic is there."""
    zookeeper = KazooClient(connect)
    zookeeper.start()
    try:
        wait_for_coordinator(bootstrap, "both")
        for case in cases:
            for data in case.given:
                zookeeper.create(case.node, data, makepath=True)
            yield case, Outcome(answer_of(bootstrap, case), data_of(zookeeper, case.node))
    finally:
        zookeeper.stop()
        zookeeper.close()


def offsets_in_zookeeper(bootstrap: str, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """What OffsetFetch 0 answers, by partition; without those that have no offset."""
    with wire.connect(bootstrap, 60) as stream:
        reader = wire.Reader(wire.ask(stream, OFFSET_FETCH, 0, fetch(group, [(topic, list(partitions))])))
    assert reader.number("i") == 1
    assert reader.string() == topic
    found = {}
    for _ in range(reader.number("i")):
        partition, offset = reader.number("i"), reader.number("q")
        reader.string()
        assert reader.number("h") in {0, UNKNOWN_PARTITION}
        found[partition] = offset
    return {partition: offset for partition, offset in sorted(found.items()) if offset >= 0}


def answer_of(bootstrap: str, case: Case) -> bytes | None:
    with wire.connect(bootstrap, 60) as stream:
        try:
            return wire.ask(stream, case.key, case.version, case.body)
        except ConnectionError:
            return None


def data_of(zookeeper: Any, node: str) -> str:
    try:
        return repr(zookeeper.get(node)[0]) if zookeeper.exists(node) else ABSENT
    except ValueError:  # no path of ZooKeeper
        return ABSENT


def wait_for_coordinator(bootstrap: str, group: str) -> None:
    def is_there() -> bool:
        with wire.connect(bootstrap, 60) as stream:
            return wire.ask(stream, FIND_COORDINATOR, 0, wire.string(group))[:2] == bytes(2)

    until(is_there, f"the coordinator of {group}", step_s=0.1)

    def is_loaded() -> bool:
        with wire.connect(bootstrap, 60) as stream:
            return wire.ask(stream, OFFSET_FETCH, 1, fetch(group, [(TOPIC, [0])]))[-2:] == bytes(2)

    until(is_loaded, f"the coordinator to load {group}", step_s=0.1)


def line(version: str, case: Case, outcome: Outcome) -> str:
    answer = CLOSED if outcome.answer is None else outcome.answer.hex()
    api = f"{'OffsetCommit' if case.key == OFFSET_COMMIT else 'OffsetFetch'} {case.version}"
    return f"{version}\t{case.name}\t{api}\t{case.body.hex()}\t{answer}\t{outcome.data}"


def recorded(version: str) -> dict[str, Outcome]:
    """The recording of a version, by the names of the cases."""
    found = {}
    for row in TARGET.read_text().splitlines():
        by, name, _, _, answer, data = row.split("\t")
        if by == version:
            found[name] = Outcome(None if answer == CLOSED else bytes.fromhex(answer), data)
    return found


def record(version: str) -> Iterator[str]:
    settings = {"offsets.topic.num.partitions": "1", "zookeeper.session.timeout.ms": "6000"}
    more: dict[str, Any] = {"jar_set": JAR_SETS[version], "heap": "256m", "options": QUICK_START}
    with ZooKeeper() as zookeeper, KafkaOnZooKeeper(zookeeper.connect, 0, settings, **more) as kafka:
        create = ("--create", "--topic", TOPIC, "--partitions", "2", "--replication-factor", "1")
        if version == "3.9.1":
            where, tool, jar_set = (
                ("--bootstrap-server", kafka.bootstrap),
                "org.apache.kafka.tools.TopicCommand",
                "broker",
            )
        else:
            where, tool, jar_set = ("--zookeeper", zookeeper.connect), "kafka.admin.TopicCommand", JAR_SETS[version]
        run_tool(tool, *where, *create, jar_set=jar_set)
        for case, outcome in outcomes(kafka.bootstrap, zookeeper.connect):
            yield line(version, case, outcome)


def main(arguments: list[str]) -> None:
    if arguments[:1] != ["record"]:
        sys.exit(__doc__)
    rows = [row for version in arguments[1:] or JAR_SETS for row in record(version)]
    TARGET.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
