"""Offsets of groups are moved, set and deleted in a browser, each after a preview; a group with members keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, Locator, Page, expect

from compat_tests.console.accessibility import faults_of
from compat_tests.console.browser import opened_page, screenshot
from compat_tests.console.filled_cluster import BEHIND, BILLING, HOSTILE, ORDERS
from compat_tests.console.open_cluster import OpenCluster
from compat_tests.console.test_pages import LOOKS
from compat_tests.harness.writing import commit

GROUP, OTHER = "offsets to move", "offsets to delete"
OFFSETS = {f"{ORDERS}-0": 3, f"{ORDERS}-1": 2, f"{HOSTILE}-0": 1}


@contextmanager
def committed(bootstrap: str) -> Iterator[AdminClient]:
    """Two groups with the same offsets."""
    for group in (GROUP, OTHER):
        commit(bootstrap, group, ORDERS, {0: 3, 1: 2})
        commit(bootstrap, group, HOSTILE, {0: 1})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    yield admin
    for deleted in admin.delete_consumer_groups([GROUP, OTHER]).values():
        with suppress(KafkaException):  # the test has deleted the group
            deleted.result(20)


@pytest.fixture
def admin(cluster: OpenCluster) -> Iterator[AdminClient]:
    with committed(cluster.bootstrap) as admin:
        yield admin


def offsets_of(admin: AdminClient, group: str = GROUP) -> dict[str, int]:
    [asked] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    rows: list[TopicPartition] = asked.result(20).topic_partitions
    return {f"{row.topic}-{row.partition}": row.offset for row in rows if row.offset >= 0}


def line(dialog: Locator, subject: str) -> Locator:
    return dialog.get_by_label("Preview", exact=True).get_by_role("row").filter(has_text=subject)


def test_offsets_are_moved_and_set_by_number(page: Page, writing_console: str, admin: AdminClient) -> None:
    move_and_set(page, writing_console, admin)


def test_offsets_and_groups_are_deleted(page: Page, writing_console: str, admin: AdminClient) -> None:
    delete(page, writing_console, admin)


def move_and_set(page: Page, writing_console: str, admin: AdminClient) -> None:
    assert offsets_of(admin) == OFFSETS
    page.goto(f"{writing_console}/#/groups/{GROUP}")
    page.get_by_role("button", name="Move offsets").press("Enter")
    dialog = page.get_by_role("dialog", name="Move offsets")
    dialog.get_by_role("combobox", name="Move").select_option("By a number of records")
    dialog.get_by_role("textbox", name="Records").fill("-1")
    dialog.get_by_label(HOSTILE).uncheck()
    page.keyboard.press("Tab")
    dialog.get_by_role("button", name="Preview").press("Enter")
    expect(line(dialog, f"{ORDERS}-0")).to_contain_text("1 record is read again")
    expect(dialog.get_by_text(f"headgate groups reset '{GROUP}' --by -1 --topic {ORDERS}")).to_be_visible()
    assert faults_of(page) == []
    assert offsets_of(admin) == OFFSETS
    dialog.get_by_role("button", name="Move offsets").press("Enter")
    expect(page.get_by_text("2 offsets of the group offsets to move are changed")).to_be_visible()
    assert offsets_of(admin) == {f"{ORDERS}-0": 2, f"{ORDERS}-1": 1, f"{HOSTILE}-0": 1}

    page.get_by_role("button", name="Edit offsets").press("Enter")
    page.get_by_label(f"Offset of {ORDERS}-0").fill("7")
    page.get_by_label(f"Offset of {HOSTILE}-0").fill("+2")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Set offsets")
    expect(line(dialog, f"{HOSTILE}-0")).to_contain_text("2 records are skipped")
    dialog.get_by_role("button", name="Set offsets").press("Enter")
    expect(page.get_by_role("button", name="Edit offsets")).to_be_visible()
    assert offsets_of(admin) == {f"{ORDERS}-0": 7, f"{ORDERS}-1": 1, f"{HOSTILE}-0": 3}


def delete(page: Page, writing_console: str, admin: AdminClient) -> None:
    page.goto(f"{writing_console}/#/groups/{BILLING}")
    page.get_by_role("button", name="Delete group").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(f"group {BILLING} is Stable, and has members: billing-1")).to_be_visible()
    expect(dialog.get_by_role("button", name="Delete group")).to_be_disabled()

    page.goto(f"{writing_console}/#/groups/{OTHER}?tab=topics")
    page.get_by_role("button", name=f"Delete offsets of {HOSTILE}").press("Enter")
    expect(line(dialog, f"{HOSTILE}-0")).to_contain_text("gone")
    dialog.get_by_role("button", name="Delete offsets").press("Enter")
    expect(page.get_by_role("tab", name="Topics (1)")).to_be_visible()
    assert offsets_of(admin, OTHER) == {f"{ORDERS}-0": 3, f"{ORDERS}-1": 2}

    page.goto(f"{writing_console}/#/groups")
    page.get_by_label(f"Choose {OTHER}").check()
    page.get_by_role("button", name="Delete group").press("Enter")
    dialog.get_by_label(f"Type {OTHER} to confirm").fill(OTHER)
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"The group {OTHER} is deleted.", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=OTHER)).to_have_count(0)
    assert offsets_of(admin, OTHER) == {}


@pytest.mark.soak
@pytest.mark.parametrize("width, colors", LOOKS)
def test_previews_are_sound(browser: Browser, writing_console: str, width: int, colors: str) -> None:
    with opened_page(browser, width, colors) as page:
        page.goto(f"{writing_console}/#/groups/{BEHIND}")
        page.get_by_role("button", name="Edit offsets").click()
        page.get_by_label(f"Offset of {ORDERS}-0").fill("7")
        screenshot(page, f"offsets-edited-{width}-{colors}")
        faults = faults_of(page)
        page.get_by_role("button", name="Move offsets").click()
        page.get_by_role("combobox", name="Move").select_option("To a time")
        page.get_by_role("button", name="1 day ago").click()
        screenshot(page, f"offsets-fields-{width}-{colors}")
        faults += faults_of(page)
        page.get_by_role("button", name="Preview", exact=True).click()
        page.get_by_label("Preview", exact=True).wait_for()
        screenshot(page, f"offsets-preview-{width}-{colors}")
        faults += faults_of(page)
        page.keyboard.press("Escape")
        page.goto(f"{writing_console}/#/groups/{BEHIND}?tab=topics")
        page.get_by_role("button", name=f"Move offsets of {ORDERS}").wait_for()
        screenshot(page, f"offsets-topics-{width}-{colors}")
        faults += faults_of(page)
        page.goto(f"{writing_console}/#/groups")
        page.get_by_label(f"Choose {BEHIND}").check()
        page.get_by_label(f"Choose {BILLING}").check()
        screenshot(page, f"offsets-groups-{width}-{colors}")
        faults += faults_of(page)
    assert faults == []
