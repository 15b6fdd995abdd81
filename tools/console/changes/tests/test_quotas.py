"""Quotas change as shown: before and after, who shares them, and what bounded these clients so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from headgate.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.changes.quotas import delete_quotas, set_quotas
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster
from headgate.tools.output import UsageError
from headgate.tools.tests.test_quotas import QuotaBroker

PRODUCED = "producer_byte_rate"
ALICE = (("user", "alice"),)


@pytest.fixture
def broker() -> QuotaBroker:
    broker = QuotaBroker()
    broker.quotas = {ALICE: {PRODUCED: 1024.0, "request_percentage": 50.0}}
    return broker


@pytest.fixture
def cluster(broker: QuotaBroker) -> Iterator[Cluster]:
    kinds = (AlterClientQuotasRequest, DescribeClientQuotasRequest)
    with answering_cluster(dict.fromkeys(kinds, broker.ask)) as cluster:
        yield cluster


def of(**given: str) -> Parameters:
    return Parameters([*given.items()])


def test_a_quota_is_shown_checked_and_set(broker: QuotaBroker, cluster: Cluster) -> None:
    plan = set_quotas(cluster, of(user="alice", producer_byte_rate="2048", request_percentage="50"))
    assert plan.summary == "Set quotas of user 'alice'"
    assert plan.lines == [ChangeLine(PRODUCED, "1024", "2048", "shared by all clients of the user")]
    assert plan.command == "headgate quotas set --user alice producer_byte_rate=2048"
    assert [request.validate_only for request in broker.changes] == [True]
    assert plan.apply(cluster).done == ["producer_byte_rate of user 'alice' is 2048"]
    assert broker.quotas[ALICE] == {PRODUCED: 2048.0, "request_percentage": 50.0}


def test_a_form_that_replaces_removes_what_it_leaves_empty(broker: QuotaBroker, cluster: Cluster) -> None:
    plan = set_quotas(cluster, of(user="alice", producer_byte_rate="1.5", request_percentage="", replaces="true"))
    assert [line[:3] for line in plan.lines] == [(PRODUCED, "1024", "1.5"), ("request_percentage", "50", None)]
    assert plan.command == (
        "headgate quotas set --user alice producer_byte_rate=1.5\n"
        "headgate quotas remove --user alice request_percentage"
    )
    assert plan.apply(cluster).done[1] == "request_percentage of user 'alice' is removed"
    assert broker.quotas[ALICE] == {PRODUCED: 1.5}


def test_nothing_changes_is_a_problem(broker: QuotaBroker, cluster: Cluster) -> None:
    assert set_quotas(cluster, of(user="alice", producer_byte_rate="1024")).problems == [
        "nothing changes: write another number"
    ]
    assert broker.changes == []


@pytest.mark.parametrize(
    "given, owner",
    [
        ({"user_default": "true"}, "--user-default"),
        ({"client_id": "a b"}, "--client-id 'a b'"),
        ({"client_id_default": "true", "user": "alice"}, "--client-id-default --user alice"),
    ],
    ids=str,
)
def test_owners_are_named_as_in_the_command(cluster: Cluster, given: dict[str, str], owner: str) -> None:
    assert set_quotas(cluster, of(**given, producer_byte_rate="1")).command == (
        f"headgate quotas set {owner} producer_byte_rate=1"
    )


def test_an_address_has_its_own_quota(cluster: Cluster) -> None:
    plan = set_quotas(cluster, of(ip="10.0.0.1", connection_creation_rate="5", producer_byte_rate="3"))
    assert plan.lines == [ChangeLine("connection_creation_rate", None, "5", "for this address; so far not limited")]
    [line] = set_quotas(cluster, of(ip_default="true", connection_creation_rate="5")).lines
    assert line.note == "each address for itself; so far not limited"


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({}, "name the owner of the quotas"),
        ({"ip": "10.0.0.1", "user": "alice"}, "an address has its quotas alone"),
        ({"user": "alice", "user_default": "true"}, "user: name one, or choose the default"),
        ({"user": "alice", PRODUCED: "fast"}, "producer_byte_rate=fast is no number"),
        ({"user": "alice", PRODUCED: "inf"}, "producer_byte_rate=inf is no number"),
    ],
    ids=str,
)
def test_wrong_quotas_have_a_sentence(cluster: Cluster, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((BadParameter, UsageError), match=sentence):
        set_quotas(cluster, of(**given))


def note(cluster: Cluster, **given: str) -> str:
    [line] = set_quotas(cluster, of(producer_byte_rate="7", **given)).lines
    return line.note


def test_notes_name_the_exceptions_and_the_quota_before(broker: QuotaBroker, cluster: Cluster) -> None:
    broker.quotas |= {
        (("user", None),): {PRODUCED: 9.0},
        (("client-id", "shop"), ("user", "bob")): {PRODUCED: 3.0},
        (("client-id", "shop"), ("user", "carl")): {PRODUCED: 3.0},
    }
    assert note(cluster, user="bob") == (
        "shared by all clients of the user; client-id 'shop' of user 'bob' has its own; "
        "so far bounded by 9 of user <default>"
    )
    assert (
        note(cluster, user="bob", client_id="pay") == "shared by these clients; so far bounded by 9 of user <default>"
    )


def test_a_quota_that_another_one_precedes_is_warned_of(broker: QuotaBroker, cluster: Cluster) -> None:
    broker.quotas[(("user", None),)] = {PRODUCED: 9.0}
    plan = set_quotas(cluster, of(client_id="shop", producer_byte_rate="7"))
    assert plan.warnings == [f"{PRODUCED} has no effect: 9 of user <default> comes first for these clients"]
    del broker.quotas[(("user", None),)]
    assert set_quotas(cluster, of(client_id="shop", producer_byte_rate="7")).warnings == []
    assert note(cluster, client_id="shop") == (
        "shared by all clients with the id; user 'alice' has its own; so far not limited"
    )


def test_all_quotas_of_an_owner_are_deleted(broker: QuotaBroker, cluster: Cluster) -> None:
    broker.quotas[(("user", None),)] = {PRODUCED: 9.0}
    plan = delete_quotas(cluster, of(user="alice"))
    assert plan.summary == "Delete producer_byte_rate, request_percentage of user 'alice'"
    assert plan.lines == [
        ChangeLine(PRODUCED, "1024", None, "9 of user <default> bounds these clients then"),
        ChangeLine("request_percentage", "50", None, "these clients are not limited then"),
    ]
    assert plan.command == "headgate quotas remove --user alice producer_byte_rate request_percentage"
    plan.apply(cluster)
    assert broker.quotas[ALICE] == {}


def test_one_quota_is_deleted(broker: QuotaBroker, cluster: Cluster) -> None:
    delete_quotas(cluster, of(user="alice", quota="request_percentage")).apply(cluster)
    assert broker.quotas[ALICE] == {PRODUCED: 1024.0}
    assert delete_quotas(cluster, of(user="alice", quota="request_percentage")).problems == [
        "user 'alice' has no quota request_percentage"
    ]
    assert delete_quotas(cluster, of(user="nobody")).problems == ["user 'nobody' has no quota"]


def test_a_refusal_of_the_broker_is_a_sentence(broker: QuotaBroker, cluster: Cluster) -> None:
    broker.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ClientError, match="allowed to DescribeConfigs"):
        set_quotas(cluster, of(user="alice", producer_byte_rate="7"))
