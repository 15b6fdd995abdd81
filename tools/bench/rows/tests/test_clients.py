"""What the rows with stock clients start, and what they make of the output."""

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.brokers import Broker
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.clients import (
    ConsumerPerformanceRow,
    ProducerPerformanceRow,
    java_tool,
    output_of,
    read_consumer,
    read_consumer_performance,
    read_end_to_end_latency,
    read_producer_performance,
)
from headgate.tools.bench.rows.librdkafka_consumer import Round
from headgate.tools.bench.rows.table import ROWS

PRODUCED = """\
164056 records sent, 32804.6 records/sec (32.04 MB/sec), 747.4 ms avg latency, 1142.0 ms max latency.
300000 records sent, 60000.0 records/sec (58.59 MB/sec), 620.37 ms avg latency, 1142.00 ms max latency, 591 ms 50th, \
1006 ms 95th, 1067 ms 99th, 1134 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
fetch.MB.sec, fetch.nMsg.sec
2026-01-02 03:04:05:006, 2026-01-02 03:04:07:006, 195.3125, 97.6563, 200000, 100000.0, 400, 1600, 122.0703, 125000.0
"""
LATENCIES = """\
0\t100.7
1000\t0.909882
Avg latency: 1.0153 ms
Percentiles: 50th = 0, 99th = 4, 99.9th = 8
The node does not support OFFSET_COMMIT
"""


def target(java: list[str]) -> Target:
    broker = Broker("kafka", None, 9092, Path("data"))  # type: ignore[arg-type]
    return Target(broker, Path("generators"), Path("scratch"), {}, java)


def test_a_producer_says_its_rate_and_its_latencies() -> None:
    result = read_producer_performance(PRODUCED, 300_000)
    assert (result.requests, result.record_bytes, result.seconds) == (300_000, 300_000 * 1024, 5.0)
    assert (result.p50_us, result.p99_us) == (591_000, 1_067_000)


@pytest.mark.parametrize(
    "output",
    [
        "",
        PRODUCED.splitlines()[0],
        PRODUCED.replace("300000 records", "299999 records"),
        "org.apache.kafka.common.errors.TimeoutException: 15 records\n" + PRODUCED,
    ],
)
def test_a_producer_that_lost_a_record_gives_no_figure(output: str) -> None:
    with pytest.raises(BenchError, match="did not produce 300000 records"):
        read_producer_performance(output, 300_000)


def test_consumer_performance_output_is_parsed() -> None:
    result = read_consumer_performance(CONSUMED, 199_000)
    assert (result.requests, result.record_bytes, result.seconds) == (200_000, 204_800_000, 2.0)


@pytest.mark.parametrize(
    "output",
    ["", CONSUMED.splitlines()[0], CONSUMED.replace("200000", "190000"), "GroupAuthorizationException\n" + CONSUMED],
)
def test_a_consumer_that_read_too_little_gives_no_figure(output: str) -> None:
    with pytest.raises(BenchError, match="did not read 199000 records"):
        read_consumer_performance(output, 199_000)


def test_latencies_stand_whatever_comes_after_them() -> None:
    result = read_end_to_end_latency(LATENCIES, 2000)
    assert (result.requests, round(result.mean_us, 3), result.p50_us, result.p99_us) == (2000, 1015.3, 0, 4000)
    with pytest.raises(BenchError, match="no latencies:\nConnection refused"):
        read_end_to_end_latency("Connection refused", 2000)


def test_each_size_of_batch_is_a_setting_of_the_producer() -> None:
    sizes = {}
    for size in ("16k", "64k", "1m"):
        row = ROWS[f"java-produce-{size}"]
        assert isinstance(row, ProducerPerformanceRow)
        command = row.command(target(["java", "-cp", "jars/*"]), "topic", 1000)
        assert {"acks=all", "bootstrap.servers=127.0.0.1:9092"} <= set(command)
        sizes[size] = command[-1]
    assert sizes == {"16k": "batch.size=16384", "64k": "batch.size=65536", "1m": "batch.size=1048576"}


def test_a_transactional_producer_commits_every_50_ms() -> None:
    row = ROWS["java-transactional"]
    assert isinstance(row, ProducerPerformanceRow)
    command = row.command(target(["java", "-cp", "jars/*"]), "topic", 1000)
    at = command.index("--transactional-id")
    assert command[at : at + 5] == [
        "--transactional-id",
        "topic",
        "--transaction-duration-ms",
        "50",
        "--producer-props",
    ]
    assert command[-1] == "batch.size=16384"


def test_each_protocol_is_a_setting_of_the_consumer(tmp_path: Path) -> None:
    settings = {}
    for name in ("java-consume", "java-consume-kip848"):
        row = ROWS[name]
        assert isinstance(row, ConsumerPerformanceRow)
        bed = replace(target(["java", "-cp", "jars/*"]), scratch=tmp_path)
        command = row.command(bed, "topic", "group", 1000)
        assert command[command.index("--group") + 1] == "group"
        settings[name] = Path(command[command.index("--consumer.config") + 1]).read_text()
    assert list(settings.values()) == ["group.protocol=classic\n", "group.protocol=consumer\n"]


def test_without_java_its_rows_say_what_to_do() -> None:
    with pytest.raises(BenchError, match="EndToEndLatency needs java and Kafka's jars: install"):
        java_tool(target([]), "EndToEndLatency", "-Xmx256m")


def test_a_consumer_that_failed_shows_its_last_words() -> None:
    assert read_consumer('{"requests": 3, "record_bytes": 30, "seconds": 0.5}').record_bytes == 30
    with pytest.raises(BenchError, match="TimeoutError: nothing came"):
        read_consumer("Traceback\nTimeoutError: nothing came")


def test_a_round_wants_every_offset_of_every_partition() -> None:
    this = Round(2)
    this.take(1, 0, 1024)
    this.take(1, 1, 1024)
    this.end(1)
    assert (this.messages, this.value_bytes, this.ended) == (2, 2048, [False, True])
    with pytest.raises(ValueError, match="partition 0: offset 1, 0 was next"):
        this.take(0, 1, 1024)


@pytest.mark.sockets
def test_a_client_that_hangs_is_ended() -> None:
    with pytest.raises(BenchError, match=r"tail did not end in 0\.05 s"):
        output_of(["tail", "-f", "/dev/null"], 0.05)
