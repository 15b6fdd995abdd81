"""The frame around every page: what a visitor sees first, and what a page of another site gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page

from compat_tests.console.browser import screenshots


@pytest.mark.soak
def test_the_brokers_are_shown(browser: Browser, console_address: str, topic: Callable[..., str]) -> None:
    topic(partitions=3)
    screenshots(browser, f"{console_address}/#/brokers", "brokers", "controller")


def test_keys_alone_reach_filter_and_colours(page: Page, console_address: str) -> None:
    page.goto(f"{console_address}/#/brokers")
    page.get_by_role("grid").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("nowhere")
    page.get_by_text("Nothing matches the filter").wait_for()
    assert page.url.endswith("#/brokers?filter=nowhere")
    page.keyboard.press("Escape")
    page.get_by_role("grid").wait_for()
    page.get_by_role("button", name="Change to dark colours").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_change_needs_the_token_of_the_session(page: Page, console_address: str) -> None:
    page.goto(f"{console_address}/#/brokers")
    page.get_by_role("grid").wait_for()
    script = """async (token) => {
        const session = await (await fetch("api/session")).json();
        const headers = token ? {"X-Headgate-CSRF": session.csrf_token} : {};
        return (await fetch("api/logout", {method: "POST", headers, body: "{}"})).status;
    }"""
    assert page.evaluate(script, True) == 200
    page.reload()
    page.get_by_role("grid").wait_for()
    # the status 403 is an error in the browser's console: asked beside the page, by the same visitor
    refused = page.request.post(f"{console_address}/api/logout", data={})
    assert refused.status == 403
