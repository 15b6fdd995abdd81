"""A change in a browser: preview, confirmation, change; and a console that only reads."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, expect

from compat_tests.console.open_cluster import OpenCluster


def make_topic(cluster: OpenCluster, name: str, partitions: int = 1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions)]).values():
        made.result(20)
    return admin


def test_a_topic_is_deleted_by_keys_alone(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    admin = make_topic(cluster, "to-be-deleted", 3)
    page.goto(f"{writing_console}/#/topics/to-be-deleted")
    page.get_by_role("button", name="Delete topic").press("Enter")
    dialog = page.get_by_role("dialog", name="Delete topic")
    expect(dialog.get_by_text("Delete the topic to-be-deleted with 0 records")).to_be_visible()
    expect(dialog.get_by_text("3 partitions")).to_be_visible()
    button = dialog.get_by_role("button", name="Delete topic")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type to-be-deleted to confirm").fill("to-be-deleted")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/topics")
    expect(page.get_by_text("The topic to-be-deleted is deleted")).to_be_visible()
    assert "to-be-deleted" not in admin.list_topics(timeout=20).topics


def test_a_console_that_reads_has_no_buttons(page: Page, console_address: str, topic: Callable[..., str]) -> None:
    page.goto(f"{console_address}/#/topics/{topic()}")
    expect(page.get_by_role("link", name="Messages", exact=True).last).to_be_visible()
    expect(page.get_by_text("read-only")).to_be_visible()
    assert page.get_by_role("button", name="Delete topic").count() == 0
