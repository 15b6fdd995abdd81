"""The pages about access and clients: ACLs, the rule that decides, users, quotas, tokens; connections in full."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from compat_tests.console.browser import opened_page
from compat_tests.console.filled_cluster import SCRIPT
from compat_tests.console.open_cluster import USER


def test_acls_of_a_resource_and_the_rule_that_decides(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/access")
    page.get_by_role("grid", name="ACLs").wait_for()
    page.get_by_role("combobox", name="Resource", exact=True).select_option("TOPIC")
    page.get_by_label("Resource name").fill("orders")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status").filter(has_text="ACL")).to_have_text("2 ACLs")  # of its prefix, and its own
    expect(page).to_have_url(re.compile("resource_name=orders"))
    page.get_by_role("row").filter(has_text="PREFIXED").click()
    answer = page.get_by_role("tabpanel", name="Why")
    expect(answer.get_by_text("allowed", exact=True)).to_be_visible()
    expect(answer).to_contain_text(f"User:{USER} may READ TOPIC ord")


def test_a_question_by_keyboard_alone(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/access")
    page.get_by_role("grid", name="ACLs").wait_for()
    page.get_by_role("tab", name="ACLs").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Why")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type(f"User:{USER}")
    page.keyboard.press("Tab")
    page.keyboard.type("TOPIC")
    page.keyboard.press("Tab")
    page.keyboard.type("orders")
    page.keyboard.press("Tab")
    page.keyboard.type("WRITE")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answer = page.get_by_role("tabpanel", name="Why")
    expect(answer.get_by_text("denied", exact=True)).to_be_visible()
    expect(answer.locator("code")).to_have_text(
        f"headgate acls add --principal User:{USER} --operation Write --topic orders"
    )


def test_a_question_without_an_answer_says_why(browser: Browser, filled_console: str) -> None:
    with opened_page(browser, is_strict=False) as page:  # the status 400 is an error in the browser's console
        page.goto(f"{filled_console}/#/access?tab=why&principal=User%3Aa&operation=READ&resource_type=CLUSTER")
        expect(page.get_by_role("alert")).to_contain_text("no request needs READ on a resource of type CLUSTER")


def test_the_quotas_of_a_client(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/access?tab=quotas")
    page.get_by_role("grid", name="quotas").wait_for()
    page.get_by_label("User", exact=True).fill(USER)
    page.get_by_label("Client id").fill("shop")
    page.keyboard.press("Enter")
    grid = page.get_by_role("grid", name="effective quotas")
    expect(grid.get_by_role("row").filter(has_text="producer_byte_rate")).to_contain_text("1.00\u00a0MiB/suser alice")
    expect(grid.get_by_role("row").filter(has_text="consumer_byte_rate")).to_contain_text("client id <default>")
    expect(grid.get_by_role("row").filter(has_text="controller_mutation_rate")).to_contain_text("not limited")


def test_users_and_tokens_are_shown_without_secrets(page: Page, filled_console: str) -> None:
    with page.expect_response("**/api/users") as answer:
        page.goto(f"{filled_console}/#/access?tab=users")
    users = page.get_by_role("grid", name="users")
    expect(users.get_by_role("row").filter(has_text=USER)).to_have_count(2)
    expect(users.get_by_role("row").filter(has_text=SCRIPT)).to_have_count(1)
    assert {name for row in answer.value.json()["users"] for name in row} == {"user", "mechanism", "iterations"}
    page.get_by_role("tab", name="Delegation tokens").click()
    expect(page.get_by_text("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")).to_be_visible()


def test_connections_with_all_that_the_broker_knows(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/clients")
    grid = page.get_by_role("grid", name="connections")
    expect(grid).to_contain_text("headgate-console")
    page.keyboard.press("/")
    page.keyboard.type("billing-1")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("rdkafka")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Connection of billing-1")
    expect(dialog).to_contain_text("User:ANONYMOUS")
    expect(dialog.get_by_role("grid")).to_contain_text("ApiVersions")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_attached()
    expect(grid).to_be_focused()


def test_rates_come_with_the_second_look(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/clients")
    page.get_by_role("grid", name="connections").wait_for()
    figure = page.locator(".figure").filter(has_text=re.compile("^In"))
    expect(figure).to_contain_text("/s", timeout=15_000)


def test_the_wire_tells_members_and_producers(page: Page, filled_console: str) -> None:
    page.goto(f"{filled_console}/#/clients?tab=members")
    members = page.get_by_role("grid", name="members")
    expect(members.get_by_role("row").filter(has_text="billing-1")).to_contain_text("orders")
    expect(members.get_by_role("row").filter(has_text=SCRIPT)).to_contain_text("hostile")
    page.get_by_role("tab", name="Producers").click()
    producers = page.get_by_role("grid", name="producers")
    expect(producers.get_by_role("row").filter(has_text="payments")).to_contain_text("in a transaction")
