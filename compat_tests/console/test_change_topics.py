"""Topics, configs and transactions are changed in a browser, each after its preview; each flow makes its own."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from playwright.sync_api import Locator, Page, expect

from compat_tests.console.filled_cluster import ORDERS
from compat_tests.console.open_cluster import OpenCluster
from compat_tests.harness.topics import create_topics

TOPIC, CONFIGURED, PENDING = "shipments", "configured", "pending-shipments"


def begin(page: Page, title: str) -> Locator:
    """Open a change by its button; the dialog."""
    page.get_by_role("button", name=title, exact=True).last.press("Enter")
    return page.get_by_role("dialog", name=title)


def finish(page: Page, dialog: Locator, title: str, done: str) -> None:
    """Press the last button of the preview, by keys alone."""
    dialog.get_by_role("button", name=title, exact=True).press("Enter")
    expect(page.get_by_text(done)).to_be_visible()
    expect(dialog).to_have_count(0)


def preview(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Preview").press("Enter")


def create_grow_and_empty(page: Page, address: str, bootstrap: str) -> None:
    """A topic from its creation to the deletion of its records."""
    page.goto(f"{address}/#/topics")
    create(page)
    grow_and_empty(page, bootstrap)


def create(page: Page) -> None:
    dialog = begin(page, "Create topic")
    dialog.get_by_label("Name", exact=True).fill(ORDERS)
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_label("Configs").fill("cleanup.policy=delete")
    preview(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("already exists")
    expect(dialog.get_by_role("button", name="Create topic", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Back").click()
    dialog.get_by_label("Name", exact=True).fill(TOPIC)
    preview(dialog)
    expect(dialog.get_by_text("replication factor")).to_be_visible()
    finish(page, dialog, "Create topic", f"The topic {TOPIC} is created")
    page.wait_for_url(f"**/#/topics/{TOPIC}")


def grow_and_empty(page: Page, bootstrap: str) -> None:
    dialog = begin(page, "Add partitions")
    expect(dialog.get_by_label("Partitions in all")).to_have_value("3")
    preview(dialog)
    expect(dialog.get_by_text("Keys change their partition")).to_be_visible()
    finish(page, dialog, "Add partitions", f"The topic {TOPIC} has 3 partitions")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(TOPIC, str(number), partition=1)
    assert producer.flush(20) == 0
    dialog = begin(page, "Delete records")
    dialog.get_by_label("Records").select_option("Those before an offset")
    dialog.get_by_label("Partition 1").fill("4")
    preview(dialog)
    expect(dialog.get_by_text(f"Delete 4 records of the topic {TOPIC} in 1 of its 3 partitions")).to_be_visible()
    dialog.get_by_label(f"Type {TOPIC} to confirm").fill(TOPIC)
    finish(page, dialog, "Delete records", f"{TOPIC}-1 begins at 4")


def test_a_topic_is_created_grown_and_emptied(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    create_grow_and_empty(page, writing_console, cluster.bootstrap)


def set_and_remove(page: Page, address: str, bootstrap: str, node: int) -> None:
    """A config of a topic is set and removed; one of the broker is read-only."""
    create_topics(bootstrap, {CONFIGURED: {}})
    page.goto(f"{address}/#/topics/{CONFIGURED}?tab=configs&filter=retention.ms")
    alter(page, "retention.ms", "12345")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, CONFIGURED)]).values()
    assert future.result(20)["retention.ms"].value == "12345"
    page.get_by_text("12345", exact=True).click()
    dialog = begin(page, "Remove value")
    expect(dialog.get_by_text("604800000")).to_be_visible()
    finish(page, dialog, "Remove value", f"retention.ms of the topic {CONFIGURED} is removed")
    page.goto(f"{address}/#/brokers/{node}?tab=configs&filter=log.dirs")
    page.get_by_text("log.dirs", exact=True).first.click()
    expect(page.get_by_text("Read-only: set it in the broker's properties")).to_be_visible()


def alter(page: Page, config: str, value: str) -> None:
    page.get_by_text(config, exact=True).first.click()
    dialog = begin(page, "Set value")
    dialog.get_by_label("Value").fill(value)
    preview(dialog)
    finish(page, dialog, "Set value", f"{config} of")


def test_configs_are_set_and_removed(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    set_and_remove(page, writing_console, cluster.bootstrap, 0)


def abort(page: Page, address: str, bootstrap: str, warning: str) -> None:
    """The abort of a transaction whose producer is alive."""
    create_topics(bootstrap, {PENDING: {}})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": PENDING})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(PENDING, b"pending")
    assert producer.flush(20) == 0
    page.goto(f"{address}/#/transactions?filter={PENDING}")
    page.get_by_role("row").filter(has_text=PENDING).click()
    dialog = begin(page, "Abort transaction")
    expect(dialog.get_by_text(warning)).to_be_visible()
    dialog.get_by_label(f"Type {PENDING}-0 to confirm").fill(f"{PENDING}-0")
    finish(page, dialog, "Abort transaction", f"The transaction in {PENDING}-0 from offset 0 on is aborted")
    expect(page.get_by_role("row").filter(has_text=PENDING)).to_have_count(0)
    with suppress(KafkaException):
        producer.abort_transaction(20)


def test_an_open_transaction_is_aborted(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    abort(page, writing_console, cluster.bootstrap, "The transaction does not hang")
