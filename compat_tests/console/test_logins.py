"""Visitors who log in: by SCRAM, as a user whose ACLs hold, without anything of other visitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from compat_tests.console.accessibility import faults_of, faults_of_walk, walk_by_tab
from compat_tests.console.browser import NARROW, WIDE, console, opened_page, screenshot
from compat_tests.console.open_cluster import (
    GUEST,
    GUEST_PASSWORD,
    PASSWORD,
    USER,
    OpenCluster,
    client_properties,
)
from compat_tests.console.test_hostile import ask


@pytest.fixture(scope="module")
def login_console(cluster: OpenCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console of the listener with SASL; the console itself has no login to lend."""
    properties = client_properties(tmp_path_factory.mktemp("login"))
    arguments = ["--command-config", str(properties), *cluster.http_arguments]
    with console(cluster.login_address, arguments) as address:
        yield address


def log_in(page: Page, address: str, user: str, password: str, view: str = "#/brokers") -> None:
    page.goto(f"{address}/{view}")
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("width, colors", [(WIDE, "light"), (NARROW, "dark")])
def test_the_login_is_shown(browser: Browser, login_console: str, width: int, colors: str) -> None:
    with opened_page(browser, width, colors) as page:
        page.goto(login_console)
        page.get_by_text("Log in at").wait_for()
        screenshot(page, f"login-{width}-{colors}")
        assert faults_of(page) + faults_of_walk(walk_by_tab(page)) == []


def test_without_a_login_nothing_is_told(login_console: str) -> None:
    session = ask(login_console, "/api/session").headers["set-cookie"].partition(";")[0]
    for name in ("brokers", "acls", "users", "connections", "members"):
        assert ask(login_console, f"/api/{name}", headers={"Cookie": session}).status == 401, name


def test_a_wrong_password_is_a_sentence(browser: Browser, login_console: str) -> None:
    with opened_page(browser, is_strict=False) as page:
        log_in(page, login_console, USER, PASSWORD + "x")
        expect(page.get_by_role("alert")).to_contain_text("SCRAM-SHA-512")
        assert PASSWORD not in page.content()


def test_acls_hold_for_the_visitor(browser: Browser, login_console: str, cluster: OpenCluster) -> None:
    with opened_page(browser) as page:
        log_in(page, login_console, USER, PASSWORD)
        page.get_by_role("grid", name="brokers").wait_for()
        expect(page.locator(".top")).to_contain_text(USER)
        for view, sentence in (
            ("#/access", "allowed to Describe"),
            ("#/access?tab=users", "allowed to Describe"),
            ("#/access?tab=quotas", "allowed to DescribeConfigs"),
            ("#/clients", "may not Describe the cluster"),
        ):
            page.goto(f"{login_console}/{view}")
            expect(page.locator("main")).to_contain_text(sentence)
        with page.expect_response("**/api/tokens") as answer:
            page.goto(f"{login_console}/#/access?tab=tokens")
        assert cluster.hmac not in answer.value.text()
        expect(page.get_by_role("grid", name="tokens")).to_contain_text(f"User:{USER}")
        page.goto(f"{login_console}/#/clients?tab=members")
        members = page.get_by_role("grid", name="members")
        expect(members.get_by_role("row")).to_have_count(2)  # with the head: of billing alone
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Password").wait_for()


def test_visitors_have_nothing_in_common(browser: Browser, login_console: str) -> None:
    """A guest in another browser sees no member, and the first one's cookie ends with the logout."""
    with opened_page(browser) as page, opened_page(browser) as other:
        log_in(page, login_console, USER, PASSWORD)
        page.get_by_role("grid", name="brokers").wait_for()
        other.goto(f"{login_console}/#/brokers")
        other.get_by_label("Password").wait_for()
        log_in(other, login_console, GUEST, GUEST_PASSWORD, "#/clients?tab=members")
        expect(other.locator("main")).to_contain_text("No group has members now")
        [cookie] = page.context.cookies()
        kept = {"Cookie": f"{cookie['name']}={cookie['value']}"}
        assert ask(login_console, "/api/brokers", headers=kept).status == 200
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Password").wait_for()
        assert ask(login_console, "/api/brokers", headers=kept).status == 401
        other.reload()
        other.get_by_role("grid").or_(other.get_by_text("No group")).first.wait_for()
