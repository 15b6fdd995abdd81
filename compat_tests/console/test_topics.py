"""Topics, groups, transactions and log directories as a visitor goes through them, by pointer and by keys alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Locator, Page, expect

from compat_tests.console.browser import console, screenshot
from compat_tests.harness.broker import HTTP, TARGET, Broker, HeadgateBroker, running
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit, send
from compat_tests.tools.hanging import VERIFICATION_OFF, leave_hanging

RECORDS = 30
LIMIT_S = 60
MANY = 10_000
RETENTION_MS = "604700000"
expect.set_options(timeout=20_000)  # of a busy machine
HAS_NEW_GROUPS = TARGET != "kafka39"


class Seeded(NamedTuple):
    """A topic with three partitions; a group that has read one record of two of these; an open transaction."""

    topic: str
    group: str
    transactional_id: str


@pytest.fixture(scope="module")
def seeded(broker: Broker) -> Iterator[Seeded]:
    seeded = Seeded("console-orders", "console-billing", "console-ids")
    create_topics(broker.bootstrap, {seeded.topic: {"retention.ms": RETENTION_MS}}, partitions=3)
    send(broker.bootstrap, seeded.topic, (f"record {index}" for index in range(RECORDS)))
    commit(broker.bootstrap, seeded.group, seeded.topic, {0: 1, 1: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": seeded.transactional_id})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(seeded.topic, b"not committed yet", partition=2)
    assert producer.flush(LIMIT_S) == 0
    yield seeded
    producer.abort_transaction(LIMIT_S)


@contextmanager
def member(broker: Broker, topic: str, group: str, **settings: str) -> Iterator[None]:
    """A member of a group with all partitions of a topic, which polls in a thread."""
    is_over = threading.Event()
    assigned: list[Any] = []
    names = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": f"client of {group}"}
    with closing(Consumer({**names, "auto.offset.reset": "earliest", **settings})) as consumer:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))

        def poll() -> None:
            while not is_over.is_set():
                consumer.poll(0.1)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            until(lambda: bool(assigned), f"{group} to get its partitions", LIMIT_S)
            yield
        finally:
            is_over.set()
            thread.join()


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def number(page: Page, label: str) -> Locator:
    """The number below a label."""
    return page.locator(".figure").filter(has=page.get_by_text(label, exact=True)).locator("dd")


def test_a_topic_is_found_with_its_size_and_lag(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/topics")
    page.get_by_role("grid").wait_for()
    page.keyboard.press("/")
    page.keyboard.type(seeded.topic)
    line = row(page, seeded.topic)
    expect(line.get_by_title(f"{seeded.group}: ")).to_be_visible()
    cells = line.get_by_role("gridcell")
    expect(cells.nth(1)).to_have_text("3")
    expect(cells.nth(3)).to_have_text(str(RECORDS + 1))
    expect(cells.nth(5)).to_contain_text("B")
    page.get_by_role("tab", name="Internal").click()
    expect(row(page, "__consumer_offsets")).to_have_count(0)  # the filter is still there
    page.get_by_role("button", name="Clear the filter").click()
    expect(row(page, "__consumer_offsets")).to_be_visible()


def test_a_topic_is_read_by_keys_alone(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/topics?filter={seeded.topic}")
    row(page, seeded.topic).wait_for()
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=seeded.topic)).to_be_visible()
    expect(number(page, "Records")).to_have_text(str(RECORDS + 1))
    expect(page.get_by_title("An open transaction hides")).to_be_visible()
    page.get_by_role("tab", name="Partitions").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("grid", name="replicas").get_by_role("row")).to_have_count(4)
    page.keyboard.press("ArrowRight")
    page.get_by_role("grid", name="configs").wait_for()
    page.keyboard.press("/")
    page.keyboard.type(RETENTION_MS)
    expect(page.get_by_role("grid", name="configs").get_by_role("row")).to_have_count(2)
    page.get_by_role("grid", name="configs").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="retention.ms")
    expect(dialog).to_contain_text(f"{RETENTION_MS} ms: 6")
    expect(dialog.get_by_role("listitem").first).to_contain_text(f"retention.ms = {RETENTION_MS}")
    expect(dialog.get_by_title("Set for this topic")).to_have_text("topic")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("grid", name="configs")).to_be_focused()


def test_readers_and_writers_of_a_topic(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/topics/{seeded.topic}?tab=producers")
    expect(row(page, "from ")).to_have_count(1)
    page.get_by_role("tab", name="Groups").click()
    line = page.get_by_role("row", name=f"{seeded.group} Empty")  # other groups begin with the name
    line.get_by_role("gridcell").nth(2).click()
    expect(page.get_by_role("heading", name=seeded.group)).to_be_visible()


def test_a_group_shows_offsets_and_lag(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/groups/{seeded.group}")
    expect(page.get_by_text("Empty", exact=True)).to_be_visible()
    rows = page.get_by_role("grid", name="partitions").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1).get_by_role("gridcell").nth(2)).to_have_text("1")
    page.get_by_role("tab", name="Topics").click()
    expect(row(page, seeded.topic).get_by_role("gridcell").nth(1)).to_have_text("2")
    page.get_by_role("tab", name="Members").click()
    expect(page.get_by_text("The group has no members now")).to_be_visible()


PROTOCOLS = ["classic", pytest.param("consumer", marks=pytest.mark.skipif(not HAS_NEW_GROUPS, reason="Kafka 4"))]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_stable(
    page: Page, console_address: str, broker: Broker, seeded: Seeded, protocol: str
) -> None:
    group = f"{seeded.group}-{protocol}"
    with member(broker, seeded.topic, group, **{"group.protocol": protocol}):
        page.goto(f"{console_address}/#/groups?filter={group}")
        line = row(page, group)
        expect(line).to_contain_text("Stable", timeout=LIMIT_S * 1000)
        expect(line).to_contain_text(protocol)
        line.get_by_role("gridcell").nth(2).click()
        page.get_by_role("tab", name="Members (1)").click()
        expect(row(page, f"client of {group}")).to_contain_text(f"{seeded.topic}: 0, 1, 2")


def test_an_open_transaction_is_shown(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/transactions?filter={seeded.topic}")
    line = row(page, seeded.transactional_id)
    expect(line).to_contain_text("open")
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("its coordinator is going to end it")
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Transactional ids").click()
    expect(line).to_contain_text("Ongoing")
    expect(line).to_contain_text(f"{seeded.topic}: 2")


def test_log_directories_lead_to_topics(page: Page, console_address: str, seeded: Seeded) -> None:
    page.goto(f"{console_address}/#/log-directories")
    page.get_by_role("grid").get_by_role("row").nth(1).get_by_role("gridcell").nth(3).click()
    page.get_by_role("grid", name="replicas").wait_for()
    page.keyboard.press("/")
    page.keyboard.type(seeded.topic)
    expect(row(page, seeded.topic)).to_have_count(3)
    row(page, seeded.topic).first.get_by_role("link").click()
    expect(page.get_by_role("heading", name=seeded.topic)).to_be_visible()


def test_what_does_not_exist_is_a_sentence(console_address: str, browser: Browser) -> None:
    for address, sentence in (
        ("topics/no-such-topic", "there is no topic no-such-topic"),
        ("groups/no-such-group", "there is no such group"),
    ):
        context = browser.new_context()  # the status of the refusal is an error in the browser's console
        page = context.new_page()
        page.goto(f"{console_address}/#/{address}")
        expect(page.get_by_role("alert")).to_contain_text(sentence)
        context.close()


@pytest.mark.soak
def test_ten_thousand_topics_are_shown_and_filtered_in_a_second(
    page: Page, console_address: str, broker: Broker, figure: Callable[[str], None]
) -> None:
    for start in range(0, MANY, 500):
        create_topics(broker.bootstrap, {f"console-many-{index:05d}": {} for index in range(start, start + 500)})
    page.goto(f"{console_address}/#/brokers")
    page.get_by_role("grid").wait_for()
    began = time.monotonic()
    page.get_by_role("link", name="Topics").click()
    row(page, "console-many-00000").wait_for()
    shown_s = time.monotonic() - began
    page.keyboard.press("/")
    began = time.monotonic()
    page.keyboard.type("many-09999")
    expect(row(page, "console-many-09999")).to_be_visible()
    expect(row(page, "console-many-")).to_have_count(1)
    filtered_s = time.monotonic() - began
    figure(f"console: {MANY} topics are shown after {shown_s:.2f} s, and filtered after {filtered_s:.2f} s")
    assert shown_s < 1
    assert filtered_s < 1


# ----------------------------------------------------------------------------------------------- by the brokers' HTTP


def spark_checkpoint(directory: Path, topic: str, offset: int) -> None:
    """The checkpoint of a streaming query that has done one batch of one partition."""
    texts = {
        "metadata": '{"id":"6a5f6e0e-0f5b-4c1c-9c5a-3a4f2f1f9d11"}',
        "offsets/0": f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{{"{topic}":{{"0":{offset}}}}}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.skipif(TARGET != "headgate", reason="the HTTP listener is Headgate's own")
def test_verdicts_spark_and_connections_come_by_http(page: Page, tmp_path: Path) -> None:
    topic, group = "surveyed", "surveyed-group"
    spark_checkpoint(tmp_path / "checkpoint", topic, 3)
    settings = {
        HTTP: "http://127.0.0.1:0",
        "headgate.lag.interval.ms": "200",
        "headgate.spark.checkpoints": f"orders:{tmp_path / 'checkpoint'},lost:{tmp_path / 'nothing'}",
    }
    with running(tmp_path / "broker", settings) as broker:
        assert isinstance(broker, HeadgateBroker)
        create_topics(broker.bootstrap, {topic: {}})
        send(broker.bootstrap, topic, map(str, range(10)))
        commit(broker.bootstrap, group, topic, {0: 10})
        with console(broker.bootstrap, ["--http", str(broker.http())]) as address:
            page.goto(f"{address}/#/groups")
            expect(row(page, group)).to_contain_text("OK")
            expect(row(page, "spark:lost").get_by_title("cannot read").first).to_be_visible()
            row(page, "spark:orders").get_by_role("link").click()
            expect(number(page, "Lag")).to_have_text("7")
            expect(page.get_by_role("grid", name="partitions").get_by_role("row").nth(1)).to_contain_text(topic)
            page.goto(f"{address}/#/groups/{group}")
            expect(page.get_by_role("grid", name="partitions").get_by_role("row").nth(1)).to_contain_text("OK")
            with member(broker, topic, "reading"):
                page.goto(f"{address}/#/topics/{topic}?tab=connections")
                expect(row(page, "client of reading")).to_contain_text("reads")


@pytest.mark.skipif(TARGET != "headgate", reason="a broker of its own, and Kafka takes seconds to start")
def test_a_hanging_transaction_is_marked_with_its_cure(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "broker", VERIFICATION_OFF) as broker:
        create_topics(broker.bootstrap, {"stuck": {}})
        leave_hanging(broker.bootstrap, "stuck", 4711, int(time.time() * 1000) - 3_600_000)
        with console(broker.bootstrap) as address:
            page.goto(f"{address}/#/transactions")
            expect(row(page, "stuck")).to_contain_text("hanging")
            expect(number(page, "Hanging")).to_have_text("1")
            page.get_by_role("grid").focus()
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("no transactional id has this producer id")
            expect(dialog).to_contain_text("headgate txn abort --topic stuck:0 --start-offset 0")
            screenshot(page, "hanging-transaction")
