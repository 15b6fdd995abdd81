"""A message is written in a browser, shown by its link, and sent again with the same bytes."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from playwright.sync_api import Locator, Page, expect

from compat_tests.console.open_cluster import OpenCluster
from compat_tests.harness.topics import create_topics

TITLE = "Produce message"
VALUE = '{"total": 12.50}\n'


def read(bootstrap: str, topic: str, partition: int, offset: int) -> Any:
    """The message there, by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message


def send(dialog: Locator, text: str) -> None:
    """Make the change of the preview; `text` is the result."""
    dialog.get_by_role("button", name=TITLE).press("Enter")
    expect(dialog.get_by_role("status").get_by_text(text)).to_be_visible()


def write_and_show(page: Page, address: str, bootstrap: str) -> None:
    """Write a message to a compacted topic, and follow the link to it."""
    create_topics(bootstrap, {"written": {"cleanup.policy": "compact"}}, 3)
    page.goto(f"{address}/#/topics/written")
    page.get_by_role("button", name=TITLE).press("Enter")
    dialog = page.get_by_role("dialog", name=TITLE)
    dialog.get_by_label("Value", exact=True).fill(VALUE)
    dialog.get_by_label("Value format").select_option("JSON")
    dialog.get_by_role("button", name="Preview").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("refuses messages without a key")
    dialog.get_by_role("button", name="Back").press("Enter")
    dialog.get_by_label("Key format").select_option("Text")
    dialog.get_by_label("Key", exact=True).fill("order-4711")
    dialog.get_by_role("button", name="Add header").press("Enter")
    dialog.get_by_label("Header 1 name").fill("trace")
    dialog.get_by_label("Header 1 format").select_option("Hexadecimal")
    dialog.get_by_label("Header 1 value").fill("00 ff")
    dialog.get_by_role("button", name="Preview").press("Enter")
    # The Java client chooses partition 1 of 3 for this key
    expect(dialog.get_by_text("Write a message to written-1: a key of 10 bytes, a value of 17 bytes")).to_be_visible()
    send(dialog, "Written to written-1 at offset 0")
    dialog.get_by_role("link", name="Show").press("Enter")
    expect(dialog).to_have_count(0)
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="written-1 at 0")).to_be_visible()
    expect(panel.get_by_label("Value").get_by_text('"total": 12.50')).to_be_visible()
    message = read(bootstrap, "written", 1, 0)
    assert (message.key(), message.value(), message.headers()) == (
        b"order-4711",
        VALUE.encode(),
        [("trace", b"\x00\xff")],
    )
    assert message.timestamp()[0] == TIMESTAMP_CREATE_TIME


def test_a_message_is_written_and_shown(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    write_and_show(page, writing_console, cluster.bootstrap)


def test_a_shown_message_is_sent_again(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    create_topics(cluster.bootstrap, {"repeated": {}}, 2)
    headers: list[tuple[str, str | bytes | None]] = [("a", None), ("b", b""), ("c", "grün"), ("c", b"\x00\xff")]
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("repeated", b"a\r\nb\xff", "", 1, headers=headers)
    assert producer.flush(20) == 0
    page.goto(f"{writing_console}/#/topics/repeated/messages?at=1:0")
    page.get_by_role("button", name="Send again").press("Enter")
    dialog = page.get_by_role("dialog", name=TITLE)
    expect(dialog.get_by_label("Value", exact=True)).to_have_value("61 0d 0a 62 ff")
    expect(dialog.get_by_label("Partition")).to_have_value("1")
    dialog.get_by_role("button", name="Preview").press("Enter")
    send(dialog, "Written to repeated-1 at offset 1")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("complementary")).to_be_visible()
    first, second = (read(cluster.bootstrap, "repeated", 1, offset) for offset in (0, 1))
    assert (second.key(), second.value(), second.headers()) == (first.key(), first.value(), first.headers())
