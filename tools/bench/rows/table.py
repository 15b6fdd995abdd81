"""The table: every row with its figures and marks, in the order of measurement."""

from collections.abc import Callable
from dataclasses import replace

from headgate.tools.bench.measuring.brokers import DUAL_GROUPS
from headgate.tools.bench.measuring.figures import (
    Figure,
    cpu_microseconds_per_request,
    cpu_seconds_per_gigabyte,
    megabytes_per_second,
    requests_per_cpu_second,
    requests_per_second,
)
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.rows.bystander import BYSTANDERS
from headgate.tools.bench.rows.clients import (
    ConsumerPerformanceRow,
    EndToEndLatencyRow,
    LibrdkafkaRow,
    ProducerPerformanceRow,
    TransactionalPerformanceRow,
)
from headgate.tools.bench.rows.cluster.faults import FAULTS
from headgate.tools.bench.rows.cluster.replicated import REPLICATED_ROWS
from headgate.tools.bench.rows.compaction import COMPACTIONS
from headgate.tools.bench.rows.conversions import ConvertedFetchRow, ConvertedProduceRow, TextShape
from headgate.tools.bench.rows.coordinators.groups import (
    ConsumerHeartbeatRow,
    HeartbeatRow,
    OffsetCommitRow,
    RebalanceRow,
)
from headgate.tools.bench.rows.coordinators.members import ConsumerMember
from headgate.tools.bench.rows.coordinators.transactions import CommittedFetchRow, TransactionRow
from headgate.tools.bench.rows.floor import FloorRow
from headgate.tools.bench.rows.restart import RESTARTS
from headgate.tools.bench.rows.row import (
    BATCH_1M,
    BATCH_4K,
    BATCH_16K,
    BATCH_TINY,
    KIBIBYTE,
    MEBIBYTE,
    NEWEST,
    FetchRow,
    LatencyRow,
    LongPollRow,
    MetadataRow,
    ProduceRow,
    Row,
)
from headgate.tools.bench.rows.scrape import ROW as SCRAPE_ROW
from headgate.tools.bench.rows.scrape import SCRAPE
from headgate.tools.bench.rows.security import (
    ACL_SETTINGS,
    BesideRow,
    HandshakeRow,
    LoginRow,
    create_acls,
    set_all_quotas,
    set_byte_quotas,
)
from headgate.tools.bench.rows.synced import SyncedProduceRow

_LATENCIES = (Figure("p50 us", lambda sample: sample.p50_us), Figure("p99 us", lambda sample: sample.p99_us))


def _per_gigabyte(cpu_mark: float | None, rate_mark: float | None = None) -> tuple[Figure, ...]:
    rate = Figure("MB/s", megabytes_per_second, more_is_better=True, mark=rate_mark)
    return Figure("CPU s/GB", cpu_seconds_per_gigabyte, mark=cpu_mark), rate


def _per_request(cpu_mark: float | None, rate_mark: float | None = None) -> tuple[Figure, ...]:
    rate = Figure("requests/s", requests_per_second, more_is_better=True, mark=rate_mark)
    return Figure("CPU us/request", cpu_microseconds_per_request, mark=cpu_mark), rate, *_LATENCIES


def _per_each(what: str, *more: Figure) -> tuple[Figure, ...]:
    """The figures of requests of groups: the cost of one, and the number in a second."""
    rate = Figure(f"{what}s/s", requests_per_second, more_is_better=True)
    return Figure(f"CPU us/{what}", cpu_microseconds_per_request, mark=1.0), *more, rate, *_LATENCIES


def _per_new(what: str, cpu_mark: float) -> tuple[Figure, ...]:
    """The figures of new connections."""
    rate = Figure(f"{what}s/s", requests_per_second, more_is_better=True)
    return Figure(f"CPU us/{what}", cpu_microseconds_per_request, mark=cpu_mark), rate


_LONG_POLL = (Figure("CPU us/expiry", cpu_microseconds_per_request, mark=0.5),)
_FLOOR = (Figure("requests/s", requests_per_second, more_is_better=True, mark=0.55),)
_CPU_PER_MESSAGE = Figure("CPU us/message", cpu_microseconds_per_request)
_END_TO_END = (
    Figure("p50 us", lambda sample: sample.p50_us, mark=1.0),
    Figure("p99 us", lambda sample: sample.p99_us),
    Figure("messages/s", requests_per_second, more_is_better=True),
    _CPU_PER_MESSAGE,
)
# p50 and p99 come from the tool in whole milliseconds
_JAVA_END_TO_END = (
    Figure("mean us", lambda sample: sample.mean_us, mark=1.0),
    Figure("p99 us", lambda sample: sample.p99_us, mark=1.0),
    _CPU_PER_MESSAGE,
)
_REBALANCE = (
    Figure("CPU s", lambda sample: sample.server_cpu_seconds, mark=1.0),
    Figure("s to stable", lambda sample: sample.seconds, mark=1.0),
    Figure("s to join", lambda sample: sample.mean_us / 1e6),
    Figure("ms a restart, p50", lambda sample: sample.p50_us / 1e3),
    Figure("generator CPU s", lambda sample: sample.client_cpu_seconds),
)


def _per_transaction(*, commit_mark: float | None = None, whole_mark: float | None = None) -> tuple[Figure, ...]:
    """Without a pause a commit waits for a share of all 64 producers' requests: there compare whole transactions."""
    return (
        Figure("CPU us/transaction", cpu_microseconds_per_request, mark=0.75),
        Figure("commit p50 us", lambda sample: sample.p50_us, mark=commit_mark),
        Figure("commit p99 us", lambda sample: sample.p99_us, mark=commit_mark),
        Figure("transaction p50 us", lambda sample: sample.transaction_p50_us, mark=whole_mark),
        Figure("transaction p99 us", lambda sample: sample.transaction_p99_us, mark=whole_mark),
        Figure("transactions/s", requests_per_second, more_is_better=True),
    )


_PLAIN: list[Row] = [
    ProduceRow("produce-16k", (*_per_gigabyte(0.5, 2), *_LATENCIES), 1, version=7, batch=BATCH_16K, in_flight=5),
    ProduceRow("produce-1m", (*_per_gigabyte(0.55), *_LATENCIES), 1, version=7, batch=BATCH_1M, in_flight=5),
    ProduceRow("produce-tiny", _per_request(0.75), 64, version=7, partitions=4, batch=BATCH_TINY),
    ProduceRow(
        "produce-tiny-pipelined", _per_request(None, 2.5), 4, version=7, partitions=4, batch=BATCH_TINY, in_flight=100
    ),
    FetchRow("fetch-1m", (*_per_gigabyte(1.0), *_LATENCIES), 8, version=11, partitions=4, max_bytes=MEBIBYTE),
    FetchRow("fetch-64k", (*_per_gigabyte(0.8), *_LATENCIES), 1, version=11, max_bytes=64 * KIBIBYTE),
    FetchRow(
        "fetch-4k", (*_per_gigabyte(0.8), *_LATENCIES), 8, version=11, partitions=4, batch=BATCH_4K,
        max_bytes=4 * KIBIBYTE, resident_bytes=64 * MEBIBYTE,
    ),
]  # fmt: skip
_COMMIT = OffsetCommitRow("offset-commit", _per_each("commit"), 64, version=7, turn_share=0.2)
_DUAL_COMMIT = tuple(replace(figure, mark=None) for figure in _COMMIT.figures)
_HEARTBEATS = _per_each("heartbeat", Figure("heartbeats/CPU s", requests_per_cpu_second, more_is_better=True))
_CONSUME = ConsumerPerformanceRow("java-consume", _per_gigabyte(1.0), 1, version=11, partitions=4, turn_share=0.4)
_GROUP = RebalanceRow("group-500", _REBALANCE, 500, version=9, partitions=1000, turn_share=0.4)
_WHOLE, _PACED = _per_transaction(whole_mark=1.0), _per_transaction(commit_mark=1.0)
_TRANSACTIONS = [
    TransactionRow("txn-64", _WHOLE, 64, version=4, partitions=4, warm_up_share=3.0),
    TransactionRow("txn-64-new", _WHOLE, 64, version=5, partitions=4, warm_up_share=3.0),
]
_METADATA = MetadataRow("metadata", _per_request(0.6), 64, version=1)

_CONVERTED = (*_per_gigabyte(None), *_LATENCIES)
_CONVERSIONS: list[Row] = [
    ConvertedProduceRow("up-plain", _CONVERTED, 4, version=2, partitions=4, batch=TextShape(1000, 100, 0, magic=1)),
    ConvertedProduceRow("up-gzip", _CONVERTED, 4, version=2, partitions=4, batch=TextShape(1000, 100, 1, magic=1)),
    ConvertedFetchRow("down-plain", _CONVERTED, 4, version=2, partitions=4, batch=TextShape(1000, 100)),
    ConvertedFetchRow("down-gzip", _CONVERTED, 4, version=2, partitions=4, batch=TextShape(1000, 100, 1)),
    ConvertedFetchRow("down-lz4", _CONVERTED, 4, version=2, partitions=4, batch=TextShape(1000, 100, 3)),
    ConvertedProduceRow(
        "recompress-produce", _CONVERTED, 4, version=7, partitions=4, batch=TextShape(1000, 100, 3),
        configs={"compression.type": "zstd"},
    ),
    ConvertedFetchRow(
        "recompress-fetch", _CONVERTED, 4, version=9, partitions=4, batch=TextShape(1000, 100, 4),
        is_refused_by_kafka=True,
    ),
]  # fmt: skip
CONVERSIONS = tuple(row.name for row in _CONVERSIONS)

_SYNCED: list[Row] = [
    SyncedProduceRow("produce-synced", _per_request(None), 64, version=7, partitions=4, batch=BATCH_TINY),
    SyncedProduceRow("produce-synced-1", _per_request(None), 1, version=7, batch=BATCH_TINY),
    SyncedProduceRow("produce-synced-64", _per_request(None), 64, version=7, partitions=64, batch=BATCH_TINY),
]
SYNCED = tuple(row.name for row in _SYNCED)

_BY_NAME = {row.name: row for row in (*_PLAIN, _METADATA)}


def _encrypted(name: str, cpu_mark: float) -> Row:
    """A row over TLS. Its mark is one of CPU time alone."""
    cpu, *others = _BY_NAME[name].figures
    figures = (replace(cpu, mark=cpu_mark), *(replace(figure, mark=None) for figure in others))
    return replace(_BY_NAME[name], name=f"{name}-tls", figures=figures, is_encrypted=True)


def _beside(name: str, what: str, cpu_mark: float | None, prepare: Callable[[Target], None]) -> Row:
    """A row beside a Headgate without something. More turns: the mark is a few percent."""
    row = _BY_NAME[name]
    cpu, *others = row.figures
    figures = (replace(cpu, mark=cpu_mark), *(replace(figure, mark=None) for figure in others))
    settings = ACL_SETTINGS if what == "acls" else {}
    return BesideRow(
        f"{name}-{what}", figures, row.connections, row.version, under=row, settings=settings, prepare=prepare,
        turn_share=_BESIDE_TURNS,
    )  # fmt: skip


_BESIDE_TURNS = 2.0
_SECURE: list[Row] = [
    _encrypted("produce-16k", 0.6),
    _encrypted("fetch-1m", 0.8),
    _encrypted("produce-tiny", 0.85),
    HandshakeRow("handshake", _per_new("handshake", 0.6), 2, version=0),
    LoginRow("login", _per_new("login", 0.5), 2, version=0),
]
SECURE = tuple(row.name for row in _SECURE)
"""Rows for which both brokers have listeners over TLS and with logins."""
_BESIDE: list[Row] = [
    *(_beside(name, "acls", 1.03, create_acls) for name in ("produce-tiny", "fetch-4k", "metadata")),
    *(_beside(name, "quotas", 1.02, set_byte_quotas) for name in ("produce-tiny", "fetch-4k")),
    *(_beside(name, "time-quotas", None, set_all_quotas) for name in ("produce-tiny", "fetch-4k", "metadata")),
]
BESIDE = tuple(row.name for row in _BESIDE)
"""Rows that compare Headgate with Headgate."""

ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        *_PLAIN,
        *(replace(row, name=f"{row.name}-newest", version=NEWEST) for row in _PLAIN),
        _METADATA,
        FloorRow("floor", _FLOOR, 64, version=1, under=_METADATA),
        LongPollRow("long-poll", _LONG_POLL, 500, version=11),
        LatencyRow("end-to-end-10k", _END_TO_END, 2, version=11, rate=10_000, warm_up_share=3.0),
        LatencyRow("end-to-end-1k", _END_TO_END, 2, version=11, rate=1_000),
        EndToEndLatencyRow("java-end-to-end", _JAVA_END_TO_END, 2, version=11),
        ProducerPerformanceRow("java-produce-16k", _per_gigabyte(0.75), 1, version=7, batch_bytes=16 * KIBIBYTE),
        ProducerPerformanceRow("java-produce-64k", _per_gigabyte(0.75), 1, version=7, batch_bytes=64 * KIBIBYTE),
        ProducerPerformanceRow("java-produce-1m", _per_gigabyte(0.75), 1, version=7, batch_bytes=MEBIBYTE),
        TransactionalPerformanceRow("java-transactional", _per_gigabyte(0.75), 1, version=7, batch_bytes=16 * KIBIBYTE),
        LibrdkafkaRow("librdkafka-fetch", _per_gigabyte(1.0), 1, version=11, partitions=4),
        _CONSUME,
        replace(_CONSUME, name="java-consume-kip848", group_protocol="consumer"),
        _COMMIT,
        replace(_COMMIT, name="offset-commit-newest", version=NEWEST, warm_up_share=0.3),
        replace(_COMMIT, name=DUAL_GROUPS, figures=_DUAL_COMMIT),
        HeartbeatRow("heartbeat", _HEARTBEATS, 64, version=NEWEST, partitions=8, warm_up_share=0.3, turn_share=0.2),
        ConsumerHeartbeatRow(
            "heartbeat-kip848", _HEARTBEATS, 64, version=NEWEST, partitions=8, warm_up_share=0.3, turn_share=0.2
        ),
        *_TRANSACTIONS,
        *(replace(row, name=f"{row.name}-paced", figures=_PACED, interval_us=100_000) for row in _TRANSACTIONS),
        CommittedFetchRow(
            "fetch-committed", (*_per_gigabyte(1.0), *_LATENCIES), 8, version=11, partitions=4, max_bytes=64 * KIBIBYTE
        ),
        _GROUP,
        replace(_GROUP, name="group-500-kip848", kind=ConsumerMember),
        *_CONVERSIONS,
        *_SYNCED,
        *_SECURE,
        *_BESIDE,
        *BYSTANDERS.values(),
        SCRAPE_ROW,
    )
}
REPLICATED: dict[str, Row] = {row.name: row for row in REPLICATED_ROWS}
"""Rows of a cluster without faults, in the order of measurement: the last one leaves its partitions behind."""
CLUSTERS = (*REPLICATED, *FAULTS)
START, MESSAGES, IDLE_CONNECTIONS, MEMORY = "start", "messages", "idle-connections", "memory"
IDLE_TLS_CONNECTIONS = "idle-connections-tls"
COORDINATOR_LOAD, TRANSACTION_LOAD = "coordinator-load", "transaction-load"
_GROUPS_BY_NAME = ("java-consume-kip848", "group-500-kip848")
NEEDS_ZOOKEEPER = frozenset((DUAL_GROUPS,))
"""Rows for which Headgate has a ZooKeeper in any case: it has each commit before the answer. Kafka has none."""
_PACED_BY_NAME = tuple(f"{row.name}-paced" for row in _TRANSACTIONS)
_ALONE_BY_NAME = (COORDINATOR_LOAD, TRANSACTION_LOAD, *RESTARTS, *COMPACTIONS)
BY_NAME_ONLY = (
    *_ALONE_BY_NAME,
    *_GROUPS_BY_NAME,
    *_PACED_BY_NAME,
    *NEEDS_ZOOKEEPER,
    *CONVERSIONS,
    *SYNCED,
    *SECURE,
    IDLE_TLS_CONNECTIONS,
    *BESIDE,
    *BYSTANDERS,
    SCRAPE,
    *CLUSTERS,
)
"""Rows outside of the default table: slow ones (Kafka needs 20 s to create a topic of 1,000 partitions); transactions
at a steady rate; commits with ZooKeeper; conversions, which run against Apache Kafka 3.9, because Kafka 4 has none;
syncs, which measure the machine's disk; security, which needs OpenSSL's headers; bystanders, which need ten thousand
topics; and clusters of three brokers.
"""
ALL_ROWS = (START, MESSAGES, IDLE_CONNECTIONS, *(name for name in ROWS if name not in BY_NAME_ONLY), MEMORY)
