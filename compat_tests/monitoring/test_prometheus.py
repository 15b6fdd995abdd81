"""Debian's Prometheus scrapes a broker whose metrics real clients have moved, and takes the alerts for its rules."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.harness import toolchain
from compat_tests.harness.broker import HTTP, TARGET, HeadgateBroker, installed_command, running
from compat_tests.harness.ports import reserve
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import Late, until
from compat_tests.harness.writing import send

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET != "headgate", reason="the metrics are Headgate's own"),
]

TOPIC, LIVE_TOPIC, RECORDS, PARTITIONS = "measured", "live", 500, 3
INSTALL = "apt-get install prometheus"
LIMIT_S = 30
SETTINGS = {HTTP: "http://127.0.0.1:0", "message.max.bytes": "200000", "headgate.lag.interval.ms": "200"}
RANGE = "10s"
"""Grafana puts a time in place of $__rate_interval: some scrapes, which are a second apart here."""
QUIET = frozenset(
    (
        "Throttled by quotas",
        "Highest dirty ratio of a compacted log",
    )
)
"""Panels of what this broker does not meet; `test_every_metric.py` moves their metrics."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadgateBroker]:
    with running(tmp_path_factory.mktemp("measured"), SETTINGS) as broker:
        assert isinstance(broker, HeadgateBroker)
        create_topics(broker.bootstrap, {TOPIC: {}}, PARTITIONS)
        send(broker.bootstrap, TOPIC, (f"record {number}" for number in range(RECORDS)))
        produce_too_much(broker)
        consume(broker)
        stays = Producer({"bootstrap.servers": broker.bootstrap})  # an open connection
        stays.list_topics(timeout=30)
        yield broker


def produce_too_much(broker: HeadgateBroker, topic: str = TOPIC) -> None:
    """A record that the broker refuses."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000})
    errors: list[str] = []
    producer.produce(topic, b"x" * 1_000_000, on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(30)
    assert "MSG_SIZE_TOO_LARGE" in errors[0]


def ask_too_much(bootstrap: str) -> None:
    """A transaction that may last longer than the broker allows: the request is refused as a whole."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "endless", "transaction.timeout.ms": 1_000_000}
    with pytest.raises(KafkaException):
        Producer({**settings, "log_level": 0}).init_transactions(LIMIT_S)


def consume(broker: HeadgateBroker) -> None:
    """Read everything; and ask for an offset that no partition has."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        records = consumer.consume(RECORDS, 60)
        assert len([record for record in records if record.error() is None]) == RECORDS
        consumer.commit(asynchronous=False)
        consumer.assign([TopicPartition(TOPIC, 0, 1_000_000)])
        refusal = until_error(consumer)
        assert "out of range" in refusal.lower(), refusal
    finally:
        consumer.close()


def until_error(consumer: Consumer) -> str:
    found: list[str] = []

    def is_refused() -> bool:
        try:
            record = consumer.poll(0.1)
        except KafkaException as error:
            found.append(str(error))
        else:
            if record is not None and record.error() is not None:
                found.append(str(record.error()))
        return bool(found)

    until(is_refused, "the refusal of an offset")
    return found[0]


@pytest.fixture(scope="module")
def metrics(broker: HeadgateBroker) -> str:
    with urllib.request.urlopen(f"{broker.http()}/metrics", timeout=30) as answer:  # noqa: S310  of the broker
        text: str = answer.read().decode()
    return text


@pytest.fixture(scope="module")
def prometheus(broker: HeadgateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes the broker each second, with the alerts as its rules."""
    program, folder = toolchain.program("prometheus", INSTALL), tmp_path_factory.mktemp("prometheus")
    address = str(broker.http()).removeprefix("http://")
    (folder / "alerts.yaml").write_text(alerts())
    (folder / "prometheus.yaml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [alerts.yaml]\n"
        f"scrape_configs: [{{job_name: headgate, static_configs: [{{targets: ['{address}']}}]}}]\n"
    )
    port = reserve(broker)
    options = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def alerts() -> str:
    command = [*installed_command(), "alerts"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ask(prometheus: str, path: str) -> dict[str, object]:
    try:
        with urllib.request.urlopen(f"{prometheus}/api/v1/{path}", timeout=30) as answer:  # noqa: S310  Prometheus
            data: dict[str, object] = json.load(answer)["data"]
    except OSError:  # it is starting
        return {}
    return data


def firing(prometheus: str) -> list[object]:
    """The alerts that are not only pending: a disk that others fill may be full in a day."""
    found = ask(prometheus, "alerts")["alerts"]
    assert isinstance(found, list)
    return [alert for alert in found if alert["state"] == "firing"]


def values(prometheus: str, query: str) -> list[float]:
    result = ask(prometheus, f"query?query={quote(query)}").get("result", [])
    assert isinstance(result, list)
    return [float(sample["value"][1]) for sample in result]


def test_a_prometheus_reads_what_clients_have_moved(broker: HeadgateBroker, prometheus: str) -> None:
    until(lambda: values(prometheus, 'up{job="headgate"}') == [1], "a scrape")
    until(lambda: bool(values(prometheus, "headgate_in_records_total")), "the numbers of a scrape")
    topic = f'{{topic="{TOPIC}"}}'
    for query, wanted in (
        (f"headgate_topic_in_records_total{topic}", RECORDS),
        (f"sum(kafka_topic_partition_current_offset{topic})", RECORDS),
        (f"kafka_topic_partitions{topic}", PARTITIONS),
        (f"sum(kafka_log_log_size{topic}) - sum(headgate_partition_in_bytes_total{topic})", 0),
        (f"headgate_topic_failed_produces_total{topic}", 1),
        ("kafka_brokers", 1),
    ):
        assert values(prometheus, query) == [wanted], query
    rules = ask(prometheus, "rules")["groups"]
    assert isinstance(rules, list)
    health = {rule["name"]: rule["health"] for group in rules for rule in group["rules"]}
    until(lambda: not firing(prometheus), "no alert of a sound broker")
    assert len(health) > 10
    assert set(health.values()) <= {"ok", "unknown"}, health


class Clients:
    """For the length of a with-block a producer and a group, which go on; some of their requests are refused."""

    def __init__(self, broker: HeadgateBroker) -> None:
        self.broker = broker
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        bootstrap = self.broker.bootstrap
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
        with closing(reader):
            reader.subscribe([LIVE_TOPIC])
            while not self._is_over.wait(0.1):
                send(bootstrap, LIVE_TOPIC, ["live"] * 20)
                reader.consume(15, 1)
                reader.commit()
                produce_too_much(self.broker, LIVE_TOPIC)
                ask_too_much(bootstrap)


def test_every_panel_of_the_dashboard_has_data(broker: HeadgateBroker, prometheus: str) -> None:
    """Each expression, as Grafana asks for it; a legend names labels that the series have."""
    command = [*installed_command(), "dashboard"]
    model = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    plots = [panel for panel in model["panels"] if panel["type"] == "timeseries"]
    targets = [(plot["title"], target) for plot in plots for target in plot["targets"] if plot["title"] not in QUIET]
    assert len(targets) > 20

    def series(expression: str) -> list[dict[str, dict[str, str]]]:
        query = quote(expression.replace("$__rate_interval", RANGE))
        found = ask(prometheus, f"query?query={query}").get("result", [])
        assert isinstance(found, list)
        return found

    def without_data() -> list[str]:
        return [f"{title}: {target['expr']}" for title, target in targets if not series(target["expr"])]

    create_topics(broker.bootstrap, {LIVE_TOPIC: {}}, PARTITIONS)
    with Clients(broker):
        try:
            until(lambda: not without_data(), "data for each panel", LIMIT_S, 0.5)
        except Late as late:
            raise Late(f"{late}: {without_data()}") from None
        for title, target in targets:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert all(labels <= one["metric"].keys() for one in series(target["expr"])), (title, target)
    for title, target in ((plot["title"], target) for plot in plots for target in plot["targets"]):
        query = quote(target["expr"].replace("$__rate_interval", RANGE))
        assert ask(prometheus, f"query?query={query}").get("resultType") == "vector", title


def test_promtool_checks_the_metrics(metrics: str) -> None:
    command = [toolchain.program("promtool", INSTALL), "check", "metrics"]
    found = subprocess.run(command, check=False, input=metrics, capture_output=True, text=True)
    complaints = [line for line in found.stderr.splitlines() if not line.startswith("kafka_")]  # names of others
    assert complaints == []
    assert len(re.findall(r"^# TYPE headgate_", metrics, re.MULTILINE)) > 70


def test_promtool_checks_the_alerts(tmp_path: Path) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text(alerts())
    command = [toolchain.program("promtool", INSTALL), "check", "rules", str(rules)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (found.returncode, "SUCCESS" in found.stdout + found.stderr) == (0, True), found.stdout + found.stderr
