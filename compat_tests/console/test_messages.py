"""Messages in the browser: found, opened, paged, stopped, exported; and data that would harm a page or a process."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from compat_tests.console.browser import screenshot
from compat_tests.harness.broker import Broker

SCRIPT = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


def produce(broker: Broker, topic: str, values: Sequence[bytes | str | None], **options: object) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "message.max.bytes": 20_000_000, **options}
    )
    for number, value in enumerate(values):
        headers: dict[str, str | bytes | None] = {"trace": f"t{number}"}
        producer.produce(
            topic, value, f"key-{number}", number % 3, timestamp=1_790_000_000_000 + number, headers=headers
        )
        producer.poll(0)
    producer.flush(60)


def orders(count: int) -> list[bytes | str | None]:
    return [json.dumps({"id": number, "amount": number % 100, "city": "Oslo"}) for number in range(count)]


def show(page: Page, address: str, topic: str, query: str = "") -> None:
    page.goto(f"{address}/#/topics/{topic}/messages{query}")


def test_a_search_by_keys_alone(page: Page, broker: Broker, console_address: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    produce(broker, name, orders(300))
    show(page, console_address, name)
    page.get_by_text("100 messages shown; there may be more").wait_for()
    page.keyboard.press("/")
    page.keyboard.type('"amount": 77,')
    page.keyboard.press("Enter")
    page.get_by_text("3 messages; everything was searched").wait_for()
    assert "text=" in page.url
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_text('"amount": 77')).to_be_visible()
    expect(panel).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(panel.get_by_text('"id": 177')).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.get_by_role("grid")).to_be_focused()


def test_pages_go_on_to_the_end(page: Page, broker: Broker, console_address: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    produce(broker, name, orders(250))
    show(page, console_address, name, "?start=oldest")
    for _ in range(2):
        page.get_by_role("button", name="Next 100").click()
    page.get_by_text("250 messages; everything was searched").wait_for()
    assert page.get_by_role("row").count() < 100  # only those in sight are drawn


def test_live_shows_what_comes(page: Page, broker: Broker, console_address: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    produce(broker, name, ["before"])
    show(page, console_address, name, "?start=live")
    page.get_by_text("0 records read").wait_for()
    produce(broker, name, ["the first", "the second"])
    page.get_by_text("the second").wait_for()
    assert page.get_by_text("before").count() == 0
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped: 2 messages").wait_for()


def test_exports_have_what_was_found(
    page: Page, broker: Broker, console_address: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=3)
    produce(broker, name, orders(300))
    show(page, console_address, name, "?text=Oslo&limit=50")
    page.get_by_text("50 messages shown").wait_for()
    files = {}
    for text in ("JSON lines", "CSV", "Values (tar)"):
        with page.expect_download() as download:
            page.get_by_role("link", name=text).click()
        files[text] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[text])
    rows = [json.loads(line) for line in files["JSON lines"].read_text().splitlines()]
    assert sorted(row["value"]["id"] for row in rows) == list(range(250, 300))
    assert len(files["CSV"].read_text().splitlines()) == 51
    with tarfile.open(files["Values (tar)"]) as archive:
        assert len(archive.getnames()) == 50


def test_hostile_records_are_only_characters(
    page: Page, broker: Broker, console_address: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3, **{"max.message.bytes": "20000000"})
    deep = "[" * 400_000
    values: list[bytes | str | None] = [
        SCRIPT,
        "a\u202egnp.exe\x00",
        deep,
        '{"a":"' + "x" * 10_000_000 + '"}',
        b"\xff\xfe\x00\x01" * 50,
    ]
    produce(broker, name, values)
    show(page, console_address, name, "?start=oldest")
    page.get_by_text("5 messages; everything was searched").wait_for()
    page.get_by_text("U+202E").first.wait_for()
    screenshot(page, "messages-hostile")
    for at in ("0:0", "1:0", "2:0", "0:1", "1:1"):
        show(page, console_address, name, f"?start=oldest&at={at}")
        page.get_by_text("Record and batch").wait_for()
    show(page, console_address, name, "?start=oldest&at=0:0")
    expect(page.get_by_role("complementary").get_by_text("<script>")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert "run" not in page.title()


def test_what_does_not_exist_says_so(
    page: Page, broker: Broker, console_address: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    show(page, console_address, name)
    page.get_by_text("There are no messages here").wait_for()
    produce(broker, name, ["one", None])
    page.get_by_role("button", name="Search again").click()
    page.get_by_text("2 messages; everything was searched").wait_for()
    expect(page.get_by_role("row").filter(has_text="tombstone")).to_have_count(1)
    show(page, console_address, name, "?text=two")
    page.get_by_text("No message matches").wait_for()
