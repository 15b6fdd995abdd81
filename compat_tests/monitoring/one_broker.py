"""Clients of one broker with TLS, an authorizer that observes, an audit log, quotas, retention holds and compaction.

They do what moves a metric, one after another; a reading follows each time.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.harness.broker import HTTP, installed_command
from compat_tests.harness.steady import produce_request, record_batch
from compat_tests.harness.topics import add_partitions, ask, create_topics, delete_before, delete_topic, set_config
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import FETCH, OFFSET_FETCH, connect, frame, receive_frame, request_header, string
from compat_tests.harness.writing import commit, send
from compat_tests.monitoring.readings import Reading, Readings
from compat_tests.security.client_security import Security, of_librdkafka
from compat_tests.security.secure_broker import TLS, SecureBroker
from compat_tests.security.test_tls_reload import Renewed
from compat_tests.storage.test_opening import grow

NAME: Final = "one"
LIMIT_S: Final = 60
OLD_MS: Final = 1_600_000_000_000
SETTINGS: Final = {
    HTTP: "http://127.0.0.1:0",
    "headgate.lag.interval.ms": "100",
    "headgate.census": "true",
    "headgate.census.interval.ms": "100",
    "headgate.census.max.rows": "3",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "headgate.authorizer.mode": "observe",
    "super.users": "User:admin",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.max.timeout.ms": "60000",
    "message.max.bytes": "2000000",
    "connections.max.idle.ms": "600000",
}
SEGMENTS: Final = {"segment.bytes": "1000", "file.delete.delay.ms": "300"}
EXPIRED: Final = {**SEGMENTS, "retention.ms": "1"}
COMPACTED: Final = {**SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
OVERDUE: Final = {**COMPACTED, "max.compaction.lag.ms": "1"}
COMPACTED_TOPICS: Final = tuple(f"compacted-{number}" for number in range(8))
SCANNED_BATCHES: Final = 60_000


class OneBroker:
    """The broker, and its readings."""

    def __init__(self, directory: Path) -> None:
        self.readings = Readings()
        self.renewed = Renewed(directory)
        self.broker: SecureBroker = self.renewed.broker
        self.audit = directory / "audit.log"
        self.broker.settings |= {**SETTINGS, "headgate.audit.log": str(self.audit)}
        self.broker.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.ports()['PLAINTEXT']}"

    def read(self) -> Reading:
        return self.readings.read(NAME, self.broker)

    def until(self, family: str, above: float = 0, *, below: float | None = None, **labels: str) -> Reading:
        return self.readings.until(NAME, self.broker, family, above, below=below, **labels)

    def set_of_broker(self, name: str, value: str | None) -> None:
        """Change a setting of the broker while it runs; None for its default."""
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        target = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
        ask(self.bootstrap, lambda admin: admin.incremental_alter_configs([target]))


def scenario(directory: Path) -> Readings:
    """Everything, and the readings."""
    one = OneBroker(directory)
    try:
        one.read()
        for step in STEPS:
            step(one)
            one.read()
    finally:
        one.broker.stop()
    return one.readings


# ------------------------------------------------------------------------------------------------------------ traffic


def produce_and_consume(one: OneBroker) -> None:
    """Records by plain and by TLS; a group that joins, lags, reads, and waits at the end."""
    create_topics(one.bootstrap, {"events": {}}, 2)
    one.read()
    send(one.bootstrap, "events", [b"event"] * 200)
    commit(one.bootstrap, "late", "events", {0: 1, 1: 1})
    one.until("headgate_group_lag_records", 100, group="late")
    security = of_librdkafka(Security(one.renewed.directory))
    settings = {"bootstrap.servers": one.broker.address(TLS), **security}
    reader = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with closing(Consumer({**settings, **reader})) as consumer:
        consumer.subscribe(["events"])
        assert len(consumer.consume(200, LIMIT_S)) == 200
        one.until("headgate_group_members", group="readers")
        consumer.commit(asynchronous=False)
        one.until("headgate_group_offset", 150, group="readers")
        one.until("headgate_requests_parked")
        one.until("headgate_listener_connections", listener=TLS)
    one.until("headgate_group_members", below=1, group="readers")
    commit(one.bootstrap, "late", "events", {0: 50, 1: 50})
    one.until("headgate_group_verdict", group="late", verdict="STOP")
    found = one.read()
    assert found.sum("headgate_topic_in_records_total", topic="events") == 200
    assert found.sum("headgate_topic_out_bytes_total", topic="events") >= found.sum(
        "headgate_topic_in_bytes_total", topic="events"
    )
    delete_before(one.bootstrap, "events", {0: 20, 1: 20})
    add_partitions(one.bootstrap, "events", 3)


def be_refused(one: OneBroker) -> None:
    """A record that is too large; an offset out of range; a transaction that may last too long."""
    producer = Producer({"bootstrap.servers": one.bootstrap, "message.max.bytes": 5_000_000})
    errors: list[str] = []
    producer.produce("events", bytes(3_000_000), on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(LIMIT_S)
    assert "MSG_SIZE_TOO_LARGE" in errors[0]
    with closing(Consumer({"bootstrap.servers": one.bootstrap, "group.id": "g", "auto.offset.reset": "error"})) as it:
        it.assign([TopicPartition("events", 0, 1_000_000)])
        until(lambda: is_refused(lambda: it.poll(0.1)), "the refusal of an offset")
    endless = Producer(
        {"bootstrap.servers": one.bootstrap, "transactional.id": "endless", "transaction.timeout.ms": 900_000}
    )
    assert is_refused(lambda: endless.init_transactions(LIMIT_S))


def is_refused(work: Callable[[], object]) -> bool:
    try:
        found = work()
    except KafkaException:
        return True
    return getattr(found, "error", lambda: None)() is not None


def be_throttled(one: OneBroker) -> None:
    """A producer beyond its quota."""
    command = [*installed_command(), "quotas", "set", "--client-id", "bounded", "producer_byte_rate=1000"]
    subprocess.run([*command, "--bootstrap-server", one.bootstrap], check=True, capture_output=True, timeout=LIMIT_S)
    with connect(one.bootstrap) as stream:
        stream.sendall(produce_request("events", 1, record_batch(bytes(20_000)), client_id="bounded"))
        receive_frame(stream)
    found = one.read()
    assert found.sum("headgate_quota_throttled_total") == 1
    assert found.sum("headgate_quota_throttle_seconds_total") > 5


def use_transactions(one: OneBroker) -> None:
    """One is open, and is overdue; one is replaced."""
    settings = {"bootstrap.servers": one.bootstrap, "transactional.id": "pay"}
    for abort_ms, reason in ((1_000, "overdue"), (60_000, "replaced")):
        producer = Producer({**settings, "transaction.timeout.ms": abort_ms})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce("events", b"open", partition=0)
        producer.flush(LIMIT_S)
        one.until("headgate_partition_unstable_records", topic="events")
        if reason == "replaced":
            Producer(settings).init_transactions(LIMIT_S)
        one.until("headgate_transactions_aborted_total", reason=reason)
        one.until("headgate_partition_unstable_records", below=1, topic="events")


def send_half_a_request(one: OneBroker) -> None:
    """A large request that stops in the middle, and one of very many parts."""
    with connect(one.bootstrap) as stream:
        stream.sendall(produce_request("events", 1, record_batch(bytes(1_500_000)))[:700_000])
        one.until("headgate_memory_request_bytes")
    one.until("headgate_memory_request_bytes", below=1)
    parts = 200_000
    many = string("late") + struct.pack(">i", 1) + string("events") + struct.pack(f">i{parts}i", parts, *range(parts))
    with connect(one.bootstrap) as stream:
        stream.sendall(frame(request_header(OFFSET_FETCH, 1) + many))
        one.until("headgate_memory_parsed_bytes")
        receive_frame(stream)
    one.until("headgate_memory_parsed_bytes", below=1)


def consume_old_formats(one: OneBroker) -> None:
    """Consumers of Fetch v2, for whom records are converted."""
    create_topics(one.bootstrap, {"converted": {}})
    send(one.bootstrap, "converted", [bytes(100)] * 30_000)
    with repeating(lambda: fetch_old(one.bootstrap, "converted")):
        one.until("headgate_conversions_waiting_bytes")
    one.until("headgate_conversions_waiting_bytes", below=1)


def fetch_old(bootstrap: str, topic: str) -> None:
    """Three consumers ask at once."""
    body = struct.pack(">iiii", -1, 100, 1, 1) + string(topic) + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    with connect(bootstrap) as first, connect(bootstrap) as second, connect(bootstrap) as third:
        for stream in (first, second, third):
            stream.sendall(frame(request_header(FETCH, 2) + body))
        for stream in (first, second, third):
            receive_frame(stream)


@contextmanager
def repeating(work: Callable[[], object]) -> Iterator[None]:
    """Do something again and again beside the block."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# -------------------------------------------------------------------------------------------------- logs and the disk


def compact(one: OneBroker) -> None:
    """Logs that are overdue are compacted, and one that is damaged is not."""
    later = {**COMPACTED, "min.compaction.lag.ms": "9000000000000"}
    create_topics(one.bootstrap, {**dict.fromkeys(COMPACTED_TOPICS, OVERDUE), "damaged": later})
    producer = Producer({"bootstrap.servers": one.bootstrap, "batch.num.messages": 1, "linger.ms": 0})
    for number in range(20):
        for topic in (*COMPACTED_TOPICS, "damaged"):
            producer.produce(topic, bytes(200), key=b"same", timestamp=OLD_MS + number)
    assert producer.flush(LIMIT_S) == 0
    one.until("headgate_compaction_delay_seconds")
    one.until("headgate_compaction_records_dropped_total")
    one.until("headgate_compaction_delay_seconds", below=1)
    first = one.broker.partition_directory("damaged", 0) / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 0xFF
    first.write_bytes(data)
    set_config(one.bootstrap, "damaged", "min.compaction.lag.ms", "0")
    found = one.until("headgate_compaction_uncleanable_partitions")
    assert found.sum("headgate_compaction_failures_total") >= 1
    assert found.sum("headgate_compaction_uncleanable_bytes") > 1000
    delete_topic(one.bootstrap, "damaged")
    one.until("headgate_compaction_uncleanable_partitions", below=1)


def hold_retention(one: OneBroker) -> None:
    """Expired segments wait for a group; then they are deleted, and later their files."""
    create_topics(one.bootstrap, {"held": {**EXPIRED, "headgate.retention.hold.groups": "reader"}})
    producer = Producer({"bootstrap.servers": one.bootstrap, "batch.num.messages": 1, "linger.ms": 0})
    for _ in range(20):
        producer.produce("held", bytes(250), timestamp=OLD_MS)
    assert producer.flush(LIMIT_S) == 0
    one.until("headgate_retention_holding_partitions")
    commit(one.bootstrap, "reader", "held", {0: 20})
    one.until("headgate_partition_start_offset", 10, topic="held")
    one.until("headgate_disk_deleted_files")
    one.until("headgate_retention_holding_partitions", below=1)
    one.until("headgate_disk_deleted_files", below=1)


def read_from_the_disk(one: OneBroker) -> None:
    """Records that have left the memory."""
    create_topics(one.bootstrap, {"cold": {}})
    send(one.bootstrap, "cold", [os.urandom(100_000)] * 30)
    (log,) = one.broker.partition_directory("cold", 0).glob("*.log")
    with log.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with closing(Consumer({"bootstrap.servers": one.bootstrap, "group.id": "cold"})) as consumer:
        consumer.assign([TopicPartition("cold", 0, 0)])
        assert len(consumer.consume(30, LIMIT_S)) == 30


def have_little_space(one: OneBroker) -> None:
    """The least free space is more than the disk has, for a while. New clients come meanwhile, to the census too."""
    one.set_of_broker("log.min.free.bytes", str(1 << 60))
    one.until("headgate_disk_full_directories")
    for number in range(5):
        AdminClient({"bootstrap.servers": one.bootstrap, "client.id": f"new-{number}"}).list_topics(timeout=LIMIT_S)
    one.until("headgate_census_write_failures_total")
    one.until("headgate_census_rows_dropped_total")
    one.set_of_broker("log.min.free.bytes", "0")
    one.until("headgate_disk_full_directories", below=1)


# ------------------------------------------------------------------------------------------------------------ security


def lose_audit_lines(one: OneBroker) -> None:
    """The file of the audit log cannot be written for a while."""
    assert one.read().sum("headgate_audit_lines_total") > 0
    one.audit.rename(one.audit.with_suffix(".old"))
    one.audit.mkdir()
    set_config(one.bootstrap, "events", "retention.ms", "9999999")
    one.until("headgate_audit_lines_lost_total")
    one.audit.rmdir()
    set_config(one.bootstrap, "events", "retention.ms", "8888888")


def renew_the_certificate(one: OneBroker) -> None:
    """A new certificate is valid for longer."""
    before = one.read().values("headgate_tls_certificate_expiry_days", listener=TLS)[0]
    one.renewed.put_next()
    one.renewed.signal_reload()
    one.until("headgate_tls_certificate_expiry_days", before + 0.5, listener=TLS)
    assert one.read().sum("headgate_authorizer_observed_refusals_total") > 0


# ------------------------------------------------------------------------------------------------------- a new process


def raise_the_limit_of_files(one: OneBroker) -> None:
    """As an administrator does it for a running process."""
    soft, hard = resource.prlimit(one.broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(one.broker.pid, resource.RLIMIT_NOFILE, (soft - 1, hard))


def restart_with_much_to_scan(one: OneBroker) -> None:
    """SIGKILL, and a log that has grown since the last checkpoint."""
    create_topics(one.bootstrap, {"grown": {}})
    send(one.bootstrap, "grown", [b"first"])
    one.broker.kill()
    grow(one.broker.partition_directory("grown", 0) / f"{0:020d}.log", SCANNED_BATCHES)
    one.broker.start()
    one.until("headgate_opening_left_bytes")
    one.until("headgate_opening_left_seconds")
    one.until("headgate_opening_partitions_left", below=1)
    assert one.read().sum("headgate_partition_end_offset", topic="grown") > SCANNED_BATCHES


STEPS: Final[tuple[Callable[[OneBroker], None], ...]] = (
    produce_and_consume,
    be_refused,
    be_throttled,
    use_transactions,
    send_half_a_request,
    consume_old_formats,
    compact,
    hold_retention,
    read_from_the_disk,
    have_little_space,
    lose_audit_lines,
    renew_the_certificate,
    raise_the_limit_of_files,
    restart_with_much_to_scan,
)
