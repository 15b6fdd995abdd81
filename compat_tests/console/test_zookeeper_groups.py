"""A cluster with ZooKeeper in the console: the plots of all its brokers, and groups that ZooKeeper alone has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from compat_tests.cluster.cluster import HEADGATE, Cluster
from compat_tests.console.browser import console, screenshots
from compat_tests.harness import toolchain
from compat_tests.harness.broker import HTTP, TARGET, HeadgateBroker
from compat_tests.harness.topics import create_topics
from compat_tests.harness.writing import send

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(TARGET != "headgate", reason="the cluster is of Headgate"),
]

NODES = {
    "/consumers/billing/offsets/orders/0": b"2",
    "/consumers/billing/ids/billing_host": b'{"version":1,"subscription":{"orders":1},"pattern":"static"}',
    "/consumers/billing/owners/orders/0": b"billing_host-0",
    "/consumers/broken/offsets/orders/0": b"not a number",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console of three brokers and ZooKeeper."""
    toolchain.jars("zookeeper")
    path: Path = tmp_path_factory.mktemp("cluster")
    with Cluster(path, HEADGATE, settings={HTTP: "http://127.0.0.1:0"}) as cluster:
        bootstrap = cluster.bootstrap
        create_topics(bootstrap, {"orders": {}}, 1, 3)
        send(bootstrap, "orders", ["1", "2", "3", "4", "5"])
        for node, data in NODES.items():
            cluster.nodes.create(node, data, makepath=True)
        brokers = [broker for broker in cluster.brokers.values() if isinstance(broker, HeadgateBroker)]
        listeners = ",".join(str(broker.http()) for broker in brokers)
        with console(bootstrap, ["--http", listeners]) as found:
            yield found


def test_groups_of_zookeeper_are_rows_of_their_own(address: str, page: Page) -> None:
    page.goto(f"{address}/#/groups")
    expect(page.get_by_role("link", name="billing", exact=True)).to_have_count(1)
    expect(page.get_by_role("link", name="broken", exact=True)).to_have_count(1)
    page.goto(f"{address}/#/groups/billing")
    expect(page.get_by_role("row", name="orders")).to_contain_text("3")
    expect(page.get_by_role("main")).to_contain_text("zookeeper")
    page.goto(f"{address}/#/groups/broken")
    expect(page.get_by_role("main")).to_contain_text("the offset of orders-0 in ZooKeeper is not known")
    expect(page.get_by_text("No offset of the group is known")).to_be_visible()


def test_the_overview_has_a_line_for_each_broker(address: str, browser: Browser, page: Page) -> None:
    page.goto(address)
    memory = page.locator("section", has=page.get_by_role("heading", name="Memory"))
    for number in range(3):
        expect(memory).to_contain_text(f"broker {number}")
    expect(page.get_by_role("columnheader", name="Slowest")).to_be_visible(timeout=20_000)
    for view, text in (("", "APIs in use"), ("#/groups", "billing"), ("#/groups/billing", "Partitions (1)")):
        screenshots(browser, f"{address}/{view}", f"cluster{view.replace('#', '').replace('/', '-')}", text)
