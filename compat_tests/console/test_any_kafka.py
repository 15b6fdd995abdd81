"""The same views of Apache Kafka 4.1 and 2.8: each shows what its broker knows, and a sentence for the rest.

`HEADGATE_SOAK=1 pytest -n0 compat_tests/console/test_any_kafka.py`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from compat_tests.console.accessibility import faults_of
from compat_tests.console.browser import console, opened_page, screenshot
from compat_tests.console.filled_cluster import BILLING, ORDERS, SCRIPT, filled
from compat_tests.console.test_change_offsets import committed, delete, move_and_set
from compat_tests.console.test_change_produce import write_and_show
from compat_tests.console.test_change_topics import abort, create_grow_and_empty, set_and_remove
from compat_tests.console.test_pages import VIEWS, View, go
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, KafkaAndZooKeeper

pytestmark = pytest.mark.soak
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
NO_AUTHORIZER: Final = "has no authorizer"
OF_HEADGATE_ALONE: Final = "Headgate's brokers"
OF_NODE, OF_KAFKA = "/brokers/0", "/brokers/1"
DIFFERENT: Final = {
    "broker": OF_HEADGATE_ALONE,
    "connections": OF_HEADGATE_ALONE,
    "acls": NO_AUTHORIZER,
    "why": NO_AUTHORIZER,
    "users": "No user logs in by SCRAM",
    "quotas": "No client has a quota",
}
"""What a Kafka without an authorizer, users and quotas shows in place of what `VIEWS` waits for."""
OF_2_8: Final = {
    "transactions": "not known",
    "transactional-ids": "since 3.0",
    "producers": "Kafka 3.0",
    "features": "The brokers name no feature",
}


class AnyKafka(NamedTuple):
    """A running Kafka with its console."""

    version: str
    address: str
    bootstrap: str


@pytest.fixture(scope="module", params=["4.1", "2.8"])
def any_kafka(request: pytest.FixtureRequest) -> Iterator[AnyKafka]:
    version: str = request.param
    toolchain.jars("broker" if version == "4.1" else "broker28")
    kind = ApacheKafka if version == "4.1" else KafkaAndZooKeeper
    settings = SETTINGS if version == "2.8" else {**SETTINGS, "transaction.state.log.num.partitions": "1"}
    with (
        kind(settings, heap="512m", options=QUICK_START) as kafka,
        filled(kafka.bootstrap),
        console(kafka.bootstrap, ["--write"]) as address,
    ):
        yield AnyKafka(version, address, kafka.bootstrap)


def views_of(version: str) -> list[View]:
    different = {**DIFFERENT, **(OF_2_8 if version == "2.8" else {})}
    return [
        view._replace(shown=different.get(view.name, view.shown), address=view.address.replace(OF_NODE, OF_KAFKA))
        for view in VIEWS
    ]


def test_every_view_is_sound(browser: Browser, any_kafka: AnyKafka) -> None:
    faults: list[str] = []
    with opened_page(browser) as page:
        for view in views_of(any_kafka.version):
            go(page, any_kafka.address, view)
            screenshot(page, f"kafka-{any_kafka.version}-{view.name}")
            faults += [f"{view.name}: {fault}" for fault in faults_of(page)]
            assert page.evaluate("window.attacked") is None, view.name
    assert faults == []


def test_a_topic_from_its_list_to_its_groups(page: Page, any_kafka: AnyKafka) -> None:
    page.goto(f"{any_kafka.address}/#/topics")
    page.get_by_role("row").filter(has_text=ORDERS).click()
    page.get_by_role("tab", name="Groups").click()
    page.get_by_role("row").filter(has_text=BILLING).first.wait_for()


def test_topics_configs_and_transactions_are_changed(page: Page, any_kafka: AnyKafka) -> None:
    kafka = any_kafka.address, any_kafka.bootstrap
    create_grow_and_empty(page, *kafka)
    set_and_remove(page, *kafka, 1)
    is_old = any_kafka.version == "2.8"
    abort(page, *kafka, "No coordinator has answered" if is_old else "The transaction does not hang")


def test_a_message_is_written(page: Page, any_kafka: AnyKafka) -> None:
    write_and_show(page, any_kafka.address, any_kafka.bootstrap)


def test_members_and_producers_of_any_kafka(page: Page, any_kafka: AnyKafka) -> None:
    page.goto(f"{any_kafka.address}/#/clients")
    expect(page.locator("main")).to_contain_text("Members of groups and producers")
    page.get_by_role("tab", name="Members of groups").click()
    members = page.get_by_role("grid", name="members")
    expect(members.get_by_role("row").filter(has_text="billing-1")).to_contain_text(ORDERS)
    expect(members.get_by_role("row").filter(has_text=SCRIPT)).to_have_count(1)
    page.get_by_role("tab", name="Producers").click()
    producers = page.get_by_role("grid", name="producers")
    expect(producers.get_by_role("row").filter(has_text="in a transaction")).to_have_count(2)


def test_offsets_of_any_kafka_are_changed(page: Page, any_kafka: AnyKafka) -> None:
    with committed(any_kafka.bootstrap) as admin:
        move_and_set(page, any_kafka.address, admin)
        delete(page, any_kafka.address, admin)
