"""All views of the console at both widths and in both colours: sound, reached by keys; in soak kept as pictures."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from compat_tests.console.accessibility import faults_of, faults_of_walk, walk_by_tab
from compat_tests.console.browser import HEIGHT, NARROW, WIDE, opened_page, screenshot
from compat_tests.console.filled_cluster import BILLING, HOSTILE, MARKED, ORDERS
from compat_tests.console.open_cluster import USER


class View(NamedTuple):
    """`address` behind `#`; `shown`: a text that is there once the view is."""

    name: str
    address: str
    shown: str


def of_topic(name: str, tab: str, shown: str) -> View:
    return View(f"topic-{tab}", f"/topics/{name}?tab={tab}", shown)


NODE: Final = 0
VIEWS: Final = (
    View("overview", "/", "Records in"),
    View("brokers", "/brokers", "controller"),
    View("broker", f"/brokers/{NODE}", "Event loop busy"),
    View("broker-configs", f"/brokers/{NODE}?tab=configs", "advertised.listeners"),
    View("broker-apis", f"/brokers/{NODE}?tab=apis", "ListOffsets"),
    View("broker-directories", f"/brokers/{NODE}?tab=log-directories", "Log directory"),
    View("topics", "/topics", ORDERS),
    of_topic(ORDERS, "partitions", "Leader"),
    of_topic(ORDERS, "replicas", "Directory"),
    of_topic(ORDERS, "configs", "retention.ms"),
    of_topic(ORDERS, "groups", BILLING),
    of_topic(ORDERS, "producers", "Producer id"),
    View("message-topics", "/messages", ORDERS),
    View("messages-of-topic", f"/topics/{ORDERS}/messages?start=oldest", "messages shown"),
    View("messages-marked", f"/topics/{HOSTILE}/messages?start=oldest", "everything was searched"),
    View("message-marked", f"/topics/{HOSTILE}/messages?start=oldest&at=0:0", "Record and batch"),
    View("message-of-topic", f"/topics/{ORDERS}/messages?limit=20&at=0:0", "Record and batch"),
    View("groups", "/groups", BILLING),
    View("group", f"/groups/{BILLING}", ORDERS),
    View("group-marked", f"/groups/{quote(MARKED, safe='')}", HOSTILE),
    View("transactions", "/transactions", "open"),
    View("transactional-ids", "/transactions?tab=ids", "payments"),
    View("log-directories", "/log-directories", "Free"),
    View("connections", "/clients", "billing-1"),
    View("members", "/clients?tab=members", "billing-1"),
    View("producers", "/clients?tab=producers", "payments"),
    View("acls", "/access", "PREFIXED"),
    View(
        "why",
        f"/access?tab=why&principal=User%3A{USER}&operation=WRITE&resource_type=TOPIC&resource_name={ORDERS}",
        "denied",
    ),
    View("users", "/access?tab=users", "SCRAM-SHA-256"),
    View("quotas", f"/access?tab=quotas&user={USER}&client_id=shop", "Quotas of this client"),
    View("tokens", "/access?tab=tokens", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    View("features", "/access?tab=features", "transaction.version"),
)
Colors = Literal["dark", "light"]
LOOKS: Final[tuple[tuple[int, Colors], ...]] = ((WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light"))


def go(page: Page, address: str, view: View) -> None:
    """Go to a view as a link does, and wait until it is there and loads nothing more."""
    page.goto(f"{address}/#{view.address}")
    page.locator("main").get_by_text(view.shown).first.wait_for()
    page.locator("main .loading").first.wait_for(state="detached")


def look(page: Page, width: int, colors: Colors) -> None:
    """Change the window and the colours of the system; the page has drawn itself anew."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme=colors)
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def test_every_view_is_sound_and_reached_by_keys(browser: Browser, filled_console: str) -> None:
    """A view comes in one look, in turn, and changes to the others: faults of accessibility, and the way by Tab.

    Names of controls, contrast, headings, no sideways scrolling; no script of a client's text has run. Tab reaches
    every control in the order of the page, in sight and with a mark; then the page begins again.
    """
    faults: list[str] = []
    with opened_page(browser) as page:
        for number, view in enumerate(VIEWS):
            for step, (width, colors) in enumerate((LOOKS * 2)[number % len(LOOKS) :][: len(LOOKS)]):
                look(page, width, colors)
                if step == 0:
                    go(page, filled_console, view)
                faults += [f"{view.name} ({width}, {colors}): {fault}" for fault in faults_of(page)]
            assert page.evaluate("window.attacked") is None, view.name
            look(page, WIDE, "light")
            faults += faults_by_keys(page, view)
    assert faults == []


@pytest.mark.soak
@pytest.mark.parametrize("width, colors", LOOKS)
def test_every_view_is_sound_in_each_look(browser: Browser, filled_console: str, width: int, colors: Colors) -> None:
    """Each view comes in each look, and is kept as a picture."""
    faults: list[str] = []
    with opened_page(browser, width, colors) as page:
        for view in VIEWS:
            go(page, filled_console, view)
            screenshot(page, f"{view.name}-{width}-{colors}")
            faults += [f"{view.name}: {fault}" for fault in faults_of(page)]
            assert page.evaluate("window.attacked") is None, view.name
            faults += faults_by_keys(page, view)
    assert faults == []


def faults_by_keys(page: Page, view: View) -> list[str]:
    stops = walk_by_tab(page)
    faults = [f"{view.name}: {fault}" for fault in faults_of_walk(stops)]
    if [stop.name for stop in stops[:2]] != ["Skip to the content", "Headgate"]:
        faults.append(f"{view.name}: the page begins with {stops[:2]}")
    return faults


def test_the_navigation_leads_to_every_page(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/")
    page.locator("main h1").wait_for()
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    names = links.all_inner_texts()
    assert len(set(names)) == len(names) >= 7
    for name in names:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()
        page.locator("main h1").filter(has_text=re.compile(f"^{re.escape(name)}")).wait_for()
        assert page.title().startswith(name)
        assert page.locator("nav [aria-current=page]").all_inner_texts() == [name]
