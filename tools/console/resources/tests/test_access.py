"""ACLs, `why`, users, quotas and tokens as the console shows them: refusals are sentences, and secrets stay away."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headgate.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headgate.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headgate.protocol.schema import Message
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources import access
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster

TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
ACLS = DescribeAclsResponse(
    resources=[
        DescribeAclsResource(TOPIC, "orders", LITERAL, [AclDescription("User:bob", "*", READ, ALLOW)]),
        DescribeAclsResource(TOPIC, "audit", LITERAL, [AclDescription("User:ann", "*", READ, ALLOW)]),
    ]
)
BOB = {
    "principal": "User:bob",
    "permission": "ALLOW",
    "operation": "READ",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "host": "*",
}


def configs(**values: str) -> DescribeConfigsResponse:
    rows = [DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items()]
    return DescribeConfigsResponse(results=[DescribeConfigsResult(resource_type=4, resource_name="0", configs=rows)])


AUTHORIZER = configs(**{"authorizer.class.name": "x.StandardAuthorizer", "super.users": "User:admin"})


def ask(function: Any, answers: dict[type[Message], Any], **parameters: str) -> Any:
    with answering_cluster(answers) as cluster:
        return function(cluster, Parameters([*parameters.items()]))


# ----------------------------------------------------------------------------------------------------------------- ACLs


def test_acls_are_shown_in_the_order_of_resources() -> None:
    shown = ask(access.acls, {DescribeAclsRequest: ACLS})
    assert [acl["resource_name"] for acl in shown["acls"]] == ["audit", "orders"]
    assert shown["acls"][1] == BOB
    assert (shown["total"], shown["authorizer"], shown["missing"]) == (2, None, {})
    assert "WRITE" not in shown["operations"]["GROUP"]


def test_a_filter_is_the_brokers_own() -> None:
    asked: list[Any] = []

    def answer(request: DescribeAclsRequest) -> Message:
        asked.append(request)
        return ACLS

    wanted = {"principal": "User:bob", "operation": "Read", "permission": "allow", "resource_type": "topic"}
    ask(access.acls, {DescribeAclsRequest: answer}, **wanted, resource_name="orders", host="10.0.0.1")
    ask(access.acls, {DescribeAclsRequest: answer}, principal="", resource_name="")
    match, any_pattern, any_of = 2, 1, 1
    assert asked == [
        DescribeAclsRequest(TOPIC, "orders", match, "User:bob", "10.0.0.1", READ, ALLOW),
        DescribeAclsRequest(any_of, None, any_pattern, None, None, any_of, any_of),
    ]


def test_a_broker_without_an_authorizer_is_no_failure() -> None:
    shown = ask(access.acls, {DescribeAclsRequest: DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED)})
    assert (shown["authorizer"], shown["acls"], shown["missing"]) == (access.NO_AUTHORIZER, [], {})


def test_refused_acls_are_null_with_the_reason() -> None:
    refused = DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    shown = ask(access.acls, {DescribeAclsRequest: refused})
    assert (shown["acls"], shown["total"]) == (None, None)
    assert "allowed to Describe" in shown["missing"]["acls"]


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"operation": "reed"}, "operation: 'reed' is none of"),
        ({"resource_type": "any"}, "resource_type: 'any' is none of"),
        ({"permission": "1"}, "permission: '1' is none of ALLOW|permission: '1' is none of DENY"),
    ],
)
def test_a_wrong_filter_is_refused(parameters: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        ask(access.acls, {DescribeAclsRequest: ACLS}, **parameters)


# ------------------------------------------------------------------------------------------------------------------ why


def decide(parameters: dict[str, str], settings: Message = AUTHORIZER) -> Any:
    question = {"principal": "User:bob", "operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}
    return ask(
        access.access_decision, {DescribeAclsRequest: ACLS, DescribeConfigsRequest: settings}, **question | parameters
    )


def test_the_deciding_rule_is_named() -> None:
    shown = decide({"host": "10.0.0.1"})
    assert shown["decision"]["acl"] == BOB
    assert shown["sentence"].startswith("User:bob from 10.0.0.1 may READ TOPIC orders: an ACL allows it")
    assert shown["notes"] == []


def test_a_refusal_names_its_cure() -> None:
    shown = decide({"operation": "write"})
    assert shown["decision"]["allowed"] is False
    assert shown["notes"] == ["`headgate acls add --principal User:bob --operation Write --topic orders` allows it"]


def test_the_cluster_needs_no_name() -> None:
    assert "ALTER CLUSTER kafka-cluster" in decide({"resource_type": "cluster", "operation": "alter"})["sentence"]


def test_without_an_authorizer_everything_is_allowed() -> None:
    shown = decide({}, configs(**{"authorizer.class.name": ""}))
    assert (shown["sentence"], shown["decision"]) == (access.NO_AUTHORIZER, None)


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"principal": "bob"}, "'bob' is no principal"),
        ({"operation": "ClusterAction"}, "no request needs CLUSTER_ACTION on a resource of type TOPIC"),
        ({"resource_name": ""}, "name the resource"),
        ({"operation": ""}, "operation: '' is none of"),
    ],
)
def test_a_question_without_an_answer_is_refused(parameters: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        decide(parameters)


# ---------------------------------------------------------------------------------------------- users, quotas, tokens


def test_users_have_mechanisms_and_iterations_alone() -> None:
    result = DescribeUserScramCredentialsResult(user="bob", credential_infos=[CredentialInfo(2, 4096)])
    shown = ask(
        access.users,
        {DescribeUserScramCredentialsRequest: DescribeUserScramCredentialsResponse(results=[result])},
    )
    assert shown["users"] == [{"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]


QUOTAS = DescribeClientQuotasResponse(
    entries=[
        EntryData([EntityData("user", "bob")], [ValueData("producer_byte_rate", 1024.0)]),
        EntryData([EntityData("user", None), EntityData("client-id", "c")], [ValueData("request_percentage", 12.5)]),
    ]
)


def test_quotas_of_all_entities_and_of_a_client() -> None:
    shown = ask(access.quotas, {DescribeClientQuotasRequest: QUOTAS})
    assert [(row["user"], row["client_id"]) for row in shown["quotas"]] == [("<default>", "c"), ("bob", None)]
    assert shown["effective"] is None
    shown = ask(access.quotas, {DescribeClientQuotasRequest: QUOTAS}, user="bob", client_id="c")
    effective = {row.pop("quota"): row for row in shown["effective"]}
    assert effective["producer_byte_rate"] == {
        "value": 1024,
        "entity": {"user": "bob", "client_id": None, "ip": None},
        "shared_by": {"user": "bob"},
    }
    assert effective["request_percentage"]["shared_by"] == {"user": "bob", "client_id": "c"}
    assert effective["consumer_byte_rate"] == {"value": None, "entity": None, "shared_by": None}


SECRET = b"an HMAC that nobody may see"
TOKENS = DescribeDelegationTokenResponse(
    tokens=[
        DescribedDelegationToken(
            "User", "bob", "User", "admin", 1, 2, 3, "id", SECRET, [DescribedDelegationTokenRenewer("User", "ann")]
        )
    ]
)


def test_tokens_come_without_their_secret() -> None:
    shown = ask(access.tokens, {DescribeDelegationTokenRequest: TOKENS})
    assert shown["tokens"] == [
        {
            "token_id": "id",
            "owner": "User:bob",
            "requester": "User:admin",
            "renewers": ["User:ann"],
            "issue_ms": 1,
            "expiry_ms": 2,
            "max_ms": 3,
            "is_expired": True,
        }
    ]


@pytest.mark.parametrize(
    "function, name, sentence",
    [
        (access.acls, "acls", "ACLs can be listed from Kafka 0.11 on"),
        (access.users, "users", "users of SCRAM can be listed from Kafka 2.7 on"),
        (access.quotas, "quotas", "quotas can be listed from Kafka 2.6 on"),
        (access.tokens, "tokens", "delegation tokens came with Kafka 1.1"),
    ],
)
def test_an_older_broker_is_named_as_the_reason(function: Any, name: str, sentence: str) -> None:
    shown = ask(function, {})
    assert shown[name] is None
    assert sentence in shown["missing"][name]


@pytest.mark.parametrize(
    "function, request_class, refusal, name",
    [
        (
            access.users,
            DescribeUserScramCredentialsRequest,
            DescribeUserScramCredentialsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "users",
        ),
        (
            access.quotas,
            DescribeClientQuotasRequest,
            DescribeClientQuotasResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, entries=None),
            "quotas",
        ),
        (
            access.tokens,
            DescribeDelegationTokenRequest,
            DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
            "tokens",
        ),
    ],
)
def test_a_refused_part_is_null(function: Any, request_class: Any, refusal: Message, name: str) -> None:
    shown = ask(function, {request_class: refusal}, user="bob")
    assert shown[name] is None
    assert shown["missing"][name]
