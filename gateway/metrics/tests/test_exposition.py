"""The text that Prometheus reads."""

from collections.abc import Callable, Sequence

from prometheus_client.parser import text_string_to_metric_families

from headgate.gateway.metrics.exposition import LINES_AT_ONCE, SAMPLES_AT_ONCE, exposition
from headgate.gateway.metrics.label_texts import label_text
from headgate.gateway.runtime.metrics import Histogram, MetricRows, Metrics
from headgate.protocol.steps import Steps


def parsed(metrics: Metrics) -> dict[tuple[str, ...], float]:
    text = b"".join(exposition(metrics)).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_kind_has_its_type_its_meaning_and_its_numbers() -> None:
    metrics, latency = Metrics(), Histogram()
    metrics.counter("compaction.runs").add(3)
    metrics.gauge("disk.free.bytes", lambda: 1.5)
    metrics.labelled("requests", ("api", "version"), lambda: [(("Fetch", "12"), 7)])
    metrics.labelled("request.seconds", ("api",), lambda: [(("Fetch",), latency)])
    for seconds in (0.000_05, 0.003, 0.003, 60.0):
        latency.observe(seconds)
    text = b"".join(exposition(metrics)).decode()
    assert "# TYPE headgate_compaction_runs_total counter" in text
    assert "# HELP headgate_disk_free_bytes Free space of the fullest log directory." in text
    found = parsed(metrics)
    assert found["headgate_compaction_runs_total",] == 3
    assert found["headgate_disk_free_bytes",] == 1.5
    assert found["headgate_requests_total", "Fetch", "12"] == 7
    assert found["headgate_request_seconds_bucket", "Fetch", "0.0001"] == 1
    assert found["headgate_request_seconds_bucket", "Fetch", "0.005"] == 3
    assert found["headgate_request_seconds_bucket", "Fetch", "+Inf"] == 4
    assert found["headgate_request_seconds_count", "Fetch"] == 4
    assert found["headgate_request_seconds_sum", "Fetch"] == 60.006_05


def test_a_metric_that_nobody_registers_is_left_out() -> None:
    assert not [name for name, *_ in parsed(Metrics()) if name.startswith("headgate_")]


def test_many_samples_come_in_parts_under_one_head() -> None:
    metrics = Metrics()
    many = [((f"A{number}", "0"), number) for number in range(3 * SAMPLES_AT_ONCE + 1)]
    metrics.labelled("requests", ("api", "version"), lambda: many)
    parts = [part for part in exposition(metrics) if b"headgate_requests_total" in part]
    assert [part.count(b"\n") for part in parts] == [SAMPLES_AT_ONCE + 2, SAMPLES_AT_ONCE, SAMPLES_AT_ONCE, 1]
    assert parsed(metrics)["headgate_requests_total", "A96", "0"] == 96


def table(
    labels: Sequence[str], *rows: tuple[tuple[str, ...], tuple[float | None, ...]]
) -> Callable[[], Steps[MetricRows]]:
    def read() -> Steps[MetricRows]:
        yield
        texts = [label_text(labels, values) for values, _ in rows]
        return MetricRows(texts, list(zip(*[numbers for _, numbers in rows], strict=True)))

    return read


def test_a_table_has_a_line_for_each_row_and_name() -> None:
    metrics = Metrics()
    labels = ("topic", "partition")
    rows = (("t", "0"), (3, None)), (('quo"te\\\n', "1"), (4.5, 0))
    metrics.table(labels, ("partition.end.offset", "partition.leader"), table(labels, *rows))
    found = parsed(metrics)
    assert found["headgate_partition_end_offset", "t", "0"] == 3
    assert found["kafka_topic_partition_current_offset", 'quo"te\\\n', "1"] == 4.5
    assert ("kafka_topic_partition_leader", "t", "0") not in found
    assert found["kafka_topic_partition_leader", 'quo"te\\\n', "1"] == 0


def test_a_long_table_comes_in_parts() -> None:
    metrics, count = Metrics(), 2 * LINES_AT_ONCE + 1
    rows = [((f"t{number}",), (number,)) for number in range(count)]
    metrics.table(("topic",), ("topic.partitions",), table(("topic",), *rows))
    parts = [part.count(b"\n") for part in exposition(metrics) if b"kafka_topic_partitions{" in part]
    assert parts == [LINES_AT_ONCE, LINES_AT_ONCE, 1]
    assert parsed(metrics)["kafka_topic_partitions", f"t{count - 1}"] == count - 1


def test_sum_and_topics_are_one_metric() -> None:
    metrics = Metrics()
    metrics.gauge("bytes.in", lambda: 7)
    metrics.table(("topic",), ("topic.bytes.in",), table(("topic",), (("t",), (5,))))
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    text = b"".join(exposition(metrics)).decode()
    assert text.count(f"# TYPE {name} counter") == 1
    found = parsed(metrics)
    assert (found[name,], found[name, "t"]) == (7, 5)


def test_metrics_of_the_broker_alone_read_no_table() -> None:
    metrics = Metrics()
    metrics.gauge("bytes.in", lambda: 7)
    metrics.table(("topic",), ("topic.bytes.in",), lambda: iter(()))  # type: ignore[arg-type, return-value]
    text = b"".join(exposition(metrics, is_whole=False)).decode()
    assert "headgate_in_bytes_total 7.0" in text
    assert "kafka_" not in text
    assert "headgate_topic_" not in text


def test_labels_have_the_names_of_the_exporter_and_shares_its_unit() -> None:
    metrics = Metrics()
    metrics.labelled("requests", ("api", "version"), lambda: [(("Fetch", "12"), 7)])
    metrics.gauge("loop.idle.percent", lambda: 75.0)
    text = b"".join(exposition(metrics)).decode()
    assert 'kafka_network_requestmetrics_requests_total{request="Fetch",version="12"} 7.0' in text
    assert "headgate_loop_idle_percent 75.0" in text
    assert "kafka_network_socketserver_networkprocessoravgidle_percent 0.75" in text


def test_a_metric_with_several_names_is_read_once() -> None:
    metrics, readings = Metrics(), list[str]()

    def read() -> float:
        readings.append("idle")
        return 50.0

    metrics.gauge("loop.idle.percent", read)
    assert len([name for name, *_ in parsed(metrics) if "idle" in name]) == 3
    assert readings == ["idle"]


def test_surveys_end_before_the_first_metric_in_steps() -> None:
    metrics, counted = Metrics(), [0]

    def survey() -> Steps[None]:
        for _ in range(3):
            counted[0] += 1
            yield

    metrics.surveys.append(survey)
    metrics.gauge("connections", lambda: counted[0])
    parts = list(exposition(metrics))
    assert parts[:3] == [b"", b"", b""]
    assert b"headgate_connections 3.0" in parts[3]
    assert metrics.snapshot() == {"connections": 6}
