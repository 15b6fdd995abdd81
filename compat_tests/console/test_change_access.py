"""Changes of access in a browser: a denied question is allowed and denied again; a user and a quota come and go."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Locator, Page, expect

from compat_tests.console.browser import console
from compat_tests.console.open_cluster import OpenCluster
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, KafkaAndZooKeeper

QUESTION = "tab=why&principal=User%3Afay&operation=WRITE&resource_type=TOPIC&resource_name=invoices"
USER, PASSWORD = "flow", "the secret of flow"


def confirm(dialog: Locator, title: str) -> None:
    dialog.get_by_role("button", name=title, exact=True).press("Enter")
    expect(dialog).not_to_be_attached()


def test_a_denied_question_is_allowed_and_denied_again(page: Page, writing_console: str) -> None:
    allow_and_deny(page, writing_console)


@pytest.mark.soak
@pytest.mark.parametrize(
    "kind, jars, authorizer",
    [
        (ApacheKafka, "broker", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        (KafkaAndZooKeeper, "broker28", "kafka.security.authorizer.AclAuthorizer"),
    ],
    ids=["4.1", "2.8"],
)
def test_the_same_question_of_apache_kafka(page: Page, kind: type[ApacheKafka], jars: str, authorizer: str) -> None:
    toolchain.jars(jars)
    settings = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with (
        kind(settings, heap="512m", options=QUICK_START) as kafka,
        console(kafka.bootstrap, ["--write"]) as address,
    ):
        allow_and_deny(page, address)


def allow_and_deny(page: Page, address: str) -> None:
    page.goto(f"{address}/#/access?{QUESTION}")
    answer = page.get_by_role("tabpanel", name="Why")
    expect(answer.get_by_text("denied", exact=True)).to_be_visible()
    answer.get_by_role("button", name="Allow this").press("Enter")
    dialog = page.get_by_role("dialog", name="Add ACL")
    expect(dialog.get_by_label("Principal")).to_have_value("User:fay")
    expect(dialog.get_by_label("Resource name")).to_have_value("invoices")
    dialog.get_by_label("Resource name").press("Enter")
    preview = dialog.get_by_role("grid", name="Preview")
    expect(preview).to_contain_text("User:fay: TOPIC invoices")
    expect(preview).to_contain_text("ALLOW WRITE")
    expect(dialog.locator("code")).to_have_text(
        "headgate acls add --principal User:fay --operation Write --topic invoices"
    )
    confirm(dialog, "Add ACL")
    expect(answer.get_by_text("allowed", exact=True)).to_be_visible()
    page.get_by_role("tab", name="ACLs").click()
    page.get_by_role("button", name="Delete ALLOW WRITE on TOPIC invoices to User:fay").press("Enter")
    dialog = page.get_by_role("dialog", name="Delete ACL")
    expect(dialog.get_by_text("User:fay loses WRITE, DESCRIBE on TOPIC invoices")).to_be_visible()
    confirm(dialog, "Delete ACL")
    expect(page.get_by_text("No ACL matches")).to_be_visible()


def test_a_user_and_a_quota_come_and_go(page: Page, writing_console: str, cluster: OpenCluster) -> None:
    page.goto(f"{writing_console}/#/access?tab=users")
    page.get_by_role("button", name="Add user").press("Enter")
    dialog = page.get_by_role("dialog", name="Add user")
    dialog.get_by_label("User", exact=True).fill(USER)
    dialog.get_by_label("Password", exact=True).fill(PASSWORD)
    dialog.get_by_label("Password again").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("grid", name="Preview")).to_contain_text("flow SCRAM-SHA-512")
    expect(dialog.get_by_text("the connection to the broker is not encrypted")).to_be_visible()
    assert PASSWORD not in dialog.inner_text()
    confirm(dialog, "Add user")
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    servers = {"bootstrap.servers": cluster.login_address, "sasl.username": USER, "sasl.password": PASSWORD}
    assert AdminClient({**login, **servers}).list_topics(timeout=20).brokers

    page.get_by_role("tab", name="Quotas").click()
    page.get_by_role("button", name="Add quota").press("Enter")
    dialog = page.get_by_role("dialog", name="Add quota")
    dialog.get_by_label("User", exact=True).fill(USER)
    dialog.get_by_label("Bytes produced a second").fill("4096")
    page.keyboard.press("Enter")
    expect(dialog.get_by_text("shared by all clients of the user; so far not limited")).to_be_visible()
    confirm(dialog, "Add quota")
    page.get_by_role("button", name="Edit quotas of user flow").press("Enter")
    dialog = page.get_by_role("dialog", name="Set quotas")
    expect(dialog.get_by_label("Bytes produced a second")).to_have_value("4096")
    dialog.get_by_label("Bytes produced a second").fill("")
    dialog.get_by_label("Bytes fetched a second").fill("8192")
    page.keyboard.press("Enter")
    expect(dialog.locator("code")).to_contain_text("headgate quotas remove --user flow producer_byte_rate")
    confirm(dialog, "Set quotas")
    page.get_by_role("button", name="Delete quotas of user flow").press("Enter")
    confirm(page.get_by_role("dialog", name="Delete quotas"), "Delete quotas")
    expect(page.get_by_role("button", name="Delete quotas of user flow")).to_have_count(0)

    page.get_by_role("tab", name="Users").click()
    page.get_by_role("button", name="Delete flow SCRAM-SHA-512").press("Enter")
    dialog = page.get_by_role("dialog", name="Delete user")
    dialog.get_by_label("Type flow to confirm").fill(USER)
    confirm(dialog, "Delete user")
    expect(page.get_by_role("grid", name="users")).not_to_contain_text("flow")
