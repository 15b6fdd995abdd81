"""The C programs, compiled and run against each other: the load generator against the echo server's canned answers."""

import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headgate.protocol.records import control
from headgate.protocol.records.batch import Record, build, patch
from headgate.tools.bench.measuring.brokers import free_port
from headgate.tools.bench.measuring.generator import Load, compile_program, run_load
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames, group_frames, many_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.templates import Template, template, write_templates
from headgate.tools.bench.rows.row import produce_templates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]

TOPIC = Topic("t", bytes(range(16)), 1)
BATCH = frames.batch([b"0123456789"], timestamp_ms=0)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    for name in ("load", "echo"):
        compile_program(name, directory)
    return directory


@contextmanager
def canned(programs: Path, directory: Path, body: bytes) -> Iterator[int]:
    """An echo server that answers every frame with `body`; its port."""
    answer = directory / "answer"
    answer.write_bytes(struct.pack(">ii", len(body) + 4, 0) + body)
    port = free_port()
    command = [str(programs / "echo"), str(port), str(answer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield port
        finally:
            process.kill()


@dataclass
class Bed:
    """Runs a load against one canned answer."""

    programs: Path
    directory: Path

    def load(self, templates: list[Template], **settings: object) -> Load:
        path = self.directory / "templates"
        write_templates(path, templates)
        return Load(**{"api": frames.PRODUCE, "version": 7, "templates": path, "connections": 1} | settings)  # type: ignore[arg-type]

    def run(self, load: Load, body: bytes) -> "dict[str, float]":
        with canned(self.programs, self.directory, body) as port:
            return run_load(self.programs, load, port)._asdict()


@pytest.fixture
def bed(programs: Path, tmp_path: Path) -> Bed:
    return Bed(programs, tmp_path)


def produced(error: int = 0, throttle_ms: int = 0) -> bytes:
    """Produce answer v7."""
    topic = struct.pack(">ih1si", 1, 1, b"t", 1)
    return topic + struct.pack(">ihqqqi", 0, error, 5, -1, 0, throttle_ms)


def produced_flexible(error: int = 0) -> bytes:
    """Produce answer v11."""
    partition = struct.pack(">ihqqq", 0, error, 5, -1, 0) + b"\x01\x00\x00"
    return b"\x00" + b"\x02\x02t\x02" + partition + b"\x00" + bytes(4) + b"\x00"


def fetched(records: bytes, high_watermark: int, error: int = 0) -> bytes:
    """Fetch answer v11."""
    head = struct.pack(">ihi", 0, 0, 0) + struct.pack(">ih1si", 1, 1, b"t", 1)
    return head + struct.pack(">ihqqqii", 0, error, high_watermark, high_watermark, 0, -1, -1) + blob(records)


def blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def fetched_flexible(records: bytes, high_watermark: int) -> bytes:
    """Fetch answer v18 in session 9, with a tagged field in the partition."""
    head = b"\x00" + struct.pack(">ihi", 0, 0, 9) + b"\x02" + TOPIC.topic_id + b"\x02"
    partition = struct.pack(">ihqqq", 0, 0, high_watermark, high_watermark, 0) + b"\x00" + struct.pack(">i", -1)
    tags = b"\x01\x01\x02ab"
    return head + partition + frames.varint(len(records) + 1) + records + tags + b"\x00" + b"\x00"


def consumer(version: int, *, first_offset: int = 0) -> list[Template]:
    wish = frames.FetchOptions(1024, in_session=version >= 13)
    return [template(frames.fetch(version, "t", 0, wish, TOPIC.topic_id), first_offset=first_offset)]


def test_counts_are_exact(bed: Bed) -> None:
    load = bed.load(produce_templates(TOPIC, BATCH, 7), connections=3, in_flight=10, requests=1000)
    result = bed.run(load, produced())
    assert (result["requests"], result["record_bytes"]) == (3000, 3000 * len(BATCH))
    assert result["bytes_sent"] == 3000 * len(produce_templates(TOPIC, BATCH, 7)[0].frame)
    assert 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"] * 1.02


def test_a_large_request_is_sent_in_pieces(bed: Bed) -> None:
    large = frames.batch([bytes(4_000_000)], timestamp_ms=0)
    load = bed.load(produce_templates(TOPIC, large, 11), version=11, in_flight=2, requests=5)
    assert bed.run(load, produced_flexible())["record_bytes"] == 5 * len(large)


def test_a_byte_limit_ends_the_run(bed: Bed) -> None:
    load = bed.load(produce_templates(TOPIC, BATCH, 7), byte_limit=100_000)
    result = bed.run(load, produced())
    assert result["bytes_sent"] + result["bytes_received"] == pytest.approx(100_000, abs=1000)


@pytest.mark.parametrize(
    "body, sentence",
    [
        (produced(error=6), "error code 6 in partition"),
        (produced(throttle_ms=100), "throttled for 100 ms"),
        (produced()[:-1], "ends too early"),
        (produced() + b"\x00", "1 bytes too many"),
    ],
)
def test_a_wrong_answer_ends_the_run(bed: Bed, body: bytes, sentence: str) -> None:
    load = bed.load(produce_templates(TOPIC, BATCH, 7), requests=10)
    with pytest.raises(BenchError, match=sentence):
        bed.run(load, body)


def test_an_error_is_found_in_a_flexible_version(bed: Bed) -> None:
    load = bed.load(produce_templates(TOPIC, BATCH, 11), version=11, requests=10)
    with pytest.raises(BenchError, match="error code 3"):
        bed.run(load, produced_flexible(error=3))


@pytest.mark.parametrize("version", [11, 18])
def test_a_consumer_goes_round_and_counts_whole_batches(bed: Bed, version: int) -> None:
    """One batch whole and one cut; its one record is at the high watermark, so that the next fetch is at 0 again."""
    body = (fetched if version == 11 else fetched_flexible)(BATCH + BATCH[:30], 1)
    expected = bed.directory / "batch"
    expected.write_bytes(BATCH)
    settings = {"api": frames.FETCH, "version": version, "requests": 50, "wrap": True, "expected": expected}
    assert bed.run(bed.load(consumer(version), **settings), body)["record_bytes"] == 50 * len(BATCH)


def test_a_consumer_notices_offsets_that_do_not_follow(bed: Bed) -> None:
    load = bed.load(consumer(11), api=frames.FETCH, version=11, requests=2)
    with pytest.raises(BenchError, match="offset 1 wanted, the batch has 0 to 0"):
        bed.run(load, fetched(BATCH, 10))


def test_a_consumer_notices_changed_bytes(bed: Bed) -> None:
    expected = bed.directory / "batch"
    expected.write_bytes(frames.batch([b"9876543210"], timestamp_ms=0))
    load = bed.load(consumer(11), api=frames.FETCH, version=11, requests=2, expected=expected)
    with pytest.raises(BenchError, match="is not the one that was produced"):
        bed.run(load, fetched(BATCH, 1))


def test_an_empty_answer_is_an_expiry_unless_data_was_promised(bed: Bed) -> None:
    settings: dict[str, object] = {"api": frames.FETCH, "version": 11, "requests": 5}
    assert bed.run(bed.load(consumer(11), **settings), fetched(b"", 0))["requests"] == 5
    with pytest.raises(BenchError, match="nothing at offset 0"):
        bed.run(bed.load(consumer(11), wrap=True, **settings), fetched(b"", 0))


def fetched_with_aborted(records: bytes, high_watermark: int, aborted: list[tuple[int, int]]) -> bytes:
    """Fetch answer v11 with the aborted transactions: producer id and first offset of each."""
    head = struct.pack(">ihi", 0, 0, 0) + struct.pack(">ih1si", 1, 1, b"t", 1)
    partition = struct.pack(">ihqqqi", 0, 0, high_watermark, high_watermark, 0, len(aborted))
    entries = b"".join(struct.pack(">qq", *entry) for entry in aborted)
    return head + partition + entries + struct.pack(">i", -1) + blob(records)


def of_producer(producer_id: int, offset: int, value: bytes = b"") -> bytes:
    """A batch of a transaction at an offset; without a value the marker of its abort."""
    if value:
        made = build([Record(value=value)], producer_id=producer_id, producer_epoch=0, is_transactional=True)
    else:
        made = control.build(control.Marker(False, 0), producer_id=producer_id, producer_epoch=0, timestamp=0)
    patch(made, offset, 0)
    return bytes(made)


def test_only_committed_batches_count(bed: Bed) -> None:
    """Producer 1 aborts, and commits later; producer 2 commits; producer 3 is aborted behind this answer."""
    committed = of_producer(2, 1, b"committed")
    records = of_producer(1, 0, b"aborted  ") + committed + of_producer(1, 2) + of_producer(1, 3, b"committed")
    expected = bed.directory / "batch"
    expected.write_bytes(committed)
    settings = {"api": frames.FETCH, "version": 11, "requests": 10, "wrap": True, "committed": True}
    load = bed.load(consumer(11), expected=expected, **settings)
    body = fetched_with_aborted(records + of_producer(3, 4, b"aborted  "), 5, [(1, 0), (3, 4)])
    assert bed.run(load, body)["record_bytes"] == 10 * 2 * len(committed)
    with pytest.raises(BenchError, match="the batch at offset 0 was aborted"):
        bed.run(load, fetched_with_aborted(records, 4, []))
    with pytest.raises(BenchError, match="the batch at offset 3 was committed"):
        bed.run(load, fetched_with_aborted(records, 4, [(1, 0), (1, 3)]))
    with pytest.raises(BenchError, match="1 aborted transactions"):
        bed.run(replace(load, committed=False, expected=None), fetched_with_aborted(records, 4, [(1, 0)]))


def produced_of_old(version: int, error: int = 0) -> bytes:
    """Produce answer v0 to v2."""
    time = struct.pack(">q", -1) if version >= 2 else b""
    throttle = bytes(4) if version >= 1 else b""
    return struct.pack(">ih1si", 1, 1, b"t", 1) + struct.pack(">ihq", 0, error, 5) + time + throttle


@pytest.mark.parametrize("version", range(3))
def test_old_produce_answers_are_read(bed: Bed, version: int) -> None:
    templates = [template(frames.produce(version, "t", 0, b"a set"), load_bytes=100)]
    load = bed.load(templates, version=version, requests=10)
    assert bed.run(load, produced_of_old(version))["record_bytes"] == 1000
    with pytest.raises(BenchError, match="error code 2 in partition"):
        bed.run(load, produced_of_old(version, error=2))


def fetched_of_old(version: int, records: bytes, high_watermark: int) -> bytes:
    """Fetch answer v0 to v3."""
    head = (bytes(4) if version >= 1 else b"") + struct.pack(">ih1si", 1, 1, b"t", 1)
    return head + struct.pack(">ihq", 0, 0, high_watermark) + blob(records)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("codec", [0, 1])
def test_a_consumer_of_sets_counts_what_records_were(bed: Bed, version: int, codec: int) -> None:
    data = frames.message_set([b"0123456789"] * 5, int(version > 1), codec)
    settings = {"api": frames.FETCH, "version": version, "requests": 20, "wrap": True, "record_bytes": 10}
    load = bed.load(consumer(version), **settings)
    assert bed.run(load, fetched_of_old(version, data + data[:20], 5))["record_bytes"] == 20 * 50


def test_a_consumer_of_sets_notices_offsets_that_do_not_follow(bed: Bed) -> None:
    data = frames.message_set([b"0123456789"] * 2, 1)
    load = bed.load(consumer(2), api=frames.FETCH, version=2, requests=2)
    with pytest.raises(BenchError, match="magic 1 at offset 0, offset 2 wanted"):
        bed.run(load, fetched_of_old(2, data, 10))


def test_metadata_errors_are_found(bed: Bed) -> None:
    def answer(error: int) -> bytes:
        brokers = struct.pack(">iih4sih", 1, 0, 4, b"host", 9092, -1)
        topic = struct.pack(">ihh1sbi", 1, error, 1, b"t", 0, 1)
        partition = struct.pack(">hiiiiii", 0, 0, 0, 1, 0, 1, 0)
        return brokers + struct.pack(">i", 0) + topic + partition

    templates = [template(frames.metadata(1, ["t"]))]
    load = bed.load(templates, api=frames.METADATA, version=1, requests=20, connections=2)
    assert bed.run(load, answer(0))["requests"] == 40
    with pytest.raises(BenchError, match="error code 5 in topic"):
        bed.run(load, answer(5))


def committed(version: int, error: int = 0) -> bytes:
    """OffsetCommit answer of two partitions."""
    if version < 8:
        return struct.pack(">iih1siihih", 0, 1, 1, b"t", 2, 0, 0, 1, error)
    name = TOPIC.topic_id if version >= 10 else b"\x02t"
    partitions = struct.pack(">ihb", 0, 0, 0) + struct.pack(">ihb", 1, error, 0)
    return b"\x00" + bytes(4) + b"\x02" + name + b"\x03" + partitions + b"\x00\x00"


@pytest.mark.parametrize("version", [7, 9, 10])
def test_commits_are_counted_and_their_errors_found(bed: Bed, version: int) -> None:
    templates = [template(group_frames.offset_commit(version, "g", TopicPartitions("t", [0, 1], TOPIC.topic_id)))]
    load = bed.load(templates, api=frames.OFFSET_COMMIT, version=version, requests=20, connections=2)
    assert bed.run(load, committed(version))["requests"] == 40
    with pytest.raises(BenchError, match="OffsetCommit answer: error code 25 in partition"):
        bed.run(load, committed(version, error=25))


@pytest.mark.parametrize("version", [3, 4])
def test_a_heartbeat_is_to_find_its_group_stable(bed: Bed, version: int) -> None:
    templates = [template(group_frames.heartbeat(version, "g", "member", 1))]
    load = bed.load(templates, api=frames.HEARTBEAT, version=version, requests=20)
    tags = b"\x00" if version == 4 else b""
    assert bed.run(load, tags + struct.pack(">ih", 0, 0) + tags)["requests"] == 20
    with pytest.raises(BenchError, match="Heartbeat answer: error code 27 in answer"):
        bed.run(load, tags + struct.pack(">ih", 0, 27) + tags)


def test_a_heartbeat_of_kip848_is_to_change_nothing(bed: Bed) -> None:
    def answer(assignment: bytes) -> bytes:
        return (
            b"\x00" + struct.pack(">ih", 0, 0) + b"\x00\x07member" + struct.pack(">ii", 5, 5000) + assignment + b"\x00"
        )

    templates = [template(group_frames.consumer_group_heartbeat(1, "g", "member", 5))]
    load = bed.load(templates, api=frames.CONSUMER_GROUP_HEARTBEAT, version=1, requests=20)
    assert bed.run(load, answer(b"\xff"))["requests"] == 20
    with pytest.raises(BenchError, match="an assignment where nothing changed"):
        bed.run(load, answer(b"\x01\x01\x00"))


def test_answers_that_nobody_can_check_are_not_asked_for(bed: Bed) -> None:
    with pytest.raises(BenchError, match="api=18: answers of it are not known here"):
        bed.run(bed.load(produce_templates(TOPIC, BATCH, 7), api=frames.API_VERSIONS, requests=1), produced())
    rotating = bed.load([template(frames.api_versions())], requests=1, rotate=True)
    with pytest.raises(BenchError, match="api=18: answers of it are not known here"):
        bed.run(rotating, produced())


def described(error: int = 0, settings: int = 1) -> bytes:
    """DescribeConfigs answer v4: one topic, each setting with one synonym."""
    setting = b"\x02k\x02v" + bytes([0, 5, 0]) + b"\x02\x02k\x02v\x05\x00" + b"\x02" + b"\x00" + b"\x00"
    resource = struct.pack(">h", error) + b"\x00\x02\x02t" + bytes([settings + 1]) + setting * settings + b"\x00"
    return b"\x00" + bytes(4) + b"\x02" + resource + b"\x00"


def fetched_offsets(offset: int = 7, error: int = 0) -> bytes:
    """OffsetFetch answer v8: one group, two partitions."""
    first = struct.pack(">iqi", 0, 7, -1) + b"\x01" + struct.pack(">h", 0) + b"\x00"
    second = struct.pack(">iqi", 1, offset, -1) + b"\x01" + struct.pack(">h", 0) + b"\x00"
    group = b"\x02g\x02\x02t\x03" + first + second + b"\x00" + struct.pack(">h", error) + b"\x00"
    return b"\x00" + bytes(4) + b"\x02" + group + b"\x00"


def created(error: int = 0) -> bytes:
    """CreateTopics answer v7: one topic with one setting."""
    topic = b"\x02t" + bytes(16) + struct.pack(">h", error) + b"\x00" + struct.pack(">ih", 1, 1)
    return b"\x00" + bytes(4) + b"\x02" + topic + b"\x02\x02k\x02v" + bytes(3) + b"\x00" + b"\x00" + b"\x00"


def deleted(error: int = 0) -> bytes:
    """DeleteTopics answer v5: one topic."""
    return b"\x00" + bytes(4) + b"\x02\x02t" + struct.pack(">h", error) + b"\x00\x00" + b"\x00"


@pytest.mark.parametrize(
    "writer, right, wrong, sentence",
    [
        (
            many_frames.describe_configs(["t"]),
            described(),
            described(29),
            "DescribeConfigs answer: error code 29 in resource",
        ),
        (many_frames.describe_configs(["t"]), described(), described(0, 0), "a resource without a setting"),
        (many_frames.offset_fetch("g", ["t"], 2), fetched_offsets(), fetched_offsets(-1), "without the offset"),
        (many_frames.offset_fetch("g", ["t"], 2), fetched_offsets(), fetched_offsets(7, 16), "error code 16 in group"),
        (many_frames.create_topics(["t"]), created(), created(36), "CreateTopics answer: error code 36 in topic"),
        (many_frames.delete_topics(["t"]), deleted(), deleted(3), "DeleteTopics answer: error code 3 in topic"),
    ],
)
def test_answers_about_many_topics_are_checked(
    bed: Bed, writer: frames.RequestWriter, right: bytes, wrong: bytes, sentence: str
) -> None:
    load = bed.load([template(writer)], api=writer.key, version=writer.version, requests=20)
    assert bed.run(load, right)["requests"] == 20
    with pytest.raises(BenchError, match=sentence):
        bed.run(load, wrong)
    with pytest.raises(BenchError, match="1 bytes too many"):
        bed.run(load, right + b"\x00")


def in_session(session: int = 9) -> bytes:
    """Fetch answer v13 without partitions."""
    return b"\x00" + struct.pack(">ihi", 0, 0, session) + b"\x01" + b"\x00"


def session_templates() -> list[Template]:
    wish = frames.FetchOptions(1024, 0, in_session=True)
    opening = template(frames.fetch_of(13, [("t", TOPIC.topic_id, [0, 1])], wish))
    return [opening._replace(offset_position=0), template(frames.fetch_of(13, [], wish))]


def test_incremental_fetches_follow_the_opening_one(bed: Bed) -> None:
    """The opening request is not counted."""
    templates = session_templates()
    load = bed.load(templates, api=frames.FETCH, version=13, in_flight=50, requests=200, connections=2, opening=True)
    result = bed.run(load, in_session())
    assert result["requests"] == 400
    assert result["bytes_sent"] == 400 * len(templates[1].frame)


def test_a_session_that_is_refused_ends_the_run(bed: Bed) -> None:
    load = bed.load(session_templates(), api=frames.FETCH, version=13, requests=1, opening=True)
    with pytest.raises(BenchError, match="the broker keeps no session"):
        bed.run(load, in_session(0))
    alone = bed.load(session_templates()[:1], api=frames.FETCH, version=13, requests=1, opening=True)
    with pytest.raises(BenchError, match="no template besides the opening one"):
        bed.run(alone, in_session())


def test_a_consumer_that_goes_on_does_not_pipeline(bed: Bed) -> None:
    load = bed.load(consumer(11), api=frames.FETCH, version=11, in_flight=2, requests=2)
    with pytest.raises(BenchError, match="in_flight must be 1"):
        bed.run(load, fetched(b"", 0))


class Recorder:
    """Serves one connection: answers Produce v7 and v11, each in its layout, and keeps what was asked."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.frames: list[bytes] = []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                frame = requests.read(*struct.unpack(">i", size))
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                body = b"" if key != frames.PRODUCE else produced() if version == 7 else produced_flexible()
                self.frames.append(frame)
                connection.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)

    def close(self) -> None:
        self.thread.join()
        self.listener.close()


def test_requests_of_several_versions_are_sent_in_turn(bed: Bed) -> None:
    """Each answer is read by the version that was asked."""
    templates = produce_templates(TOPIC, BATCH, 7) + produce_templates(TOPIC, BATCH * 3, 11)
    recorder = Recorder()
    try:
        load = bed.load(templates, requests=6, rotate=True)
        result = run_load(bed.programs, load, recorder.listener.getsockname()[1])
    finally:
        recorder.close()
    assert result.requests == 6
    greeting, *asked = recorder.frames
    assert [struct.unpack_from(">hhi", frame) for frame in asked] == [
        (frames.PRODUCE, 7 if number % 2 == 0 else 11, number) for number in range(6)
    ]
    assert [len(frame) for frame in asked] == [len(each.frame) - 4 for each in templates] * 3
    assert struct.unpack_from(">h", greeting) == (frames.API_VERSIONS,)
