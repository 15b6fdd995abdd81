"""Users of SCRAM are set and deleted as shown; a password is in nothing that is shown, logged or answered."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headgate.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.security.sasl.scram_keys import salted_password
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.app import make_app
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.changes.users import delete_user, set_user
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster
from headgate.tools.console.tests.asgi import Peer
from headgate.tools.output import UsageError
from headgate.tools.tests.test_users import SHA_256, SHA_512, UserBroker

PASSWORD = "Geheim-ä-7719"
ALICE = {"user": "alice", "password": PASSWORD}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="x";'


@pytest.fixture
def broker() -> UserBroker:
    return UserBroker()


@pytest.fixture
def cluster(broker: UserBroker) -> Iterator[Cluster]:
    kinds = (AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest)
    with answering_cluster(dict.fromkeys(kinds, broker.ask)) as cluster:
        yield cluster


def of(*mechanisms: str, **given: str) -> Parameters:
    return Parameters([*given.items(), *(("mechanism", mechanism) for mechanism in mechanisms)])


def log_in(cluster: Cluster, protocol: str) -> None:
    properties = {"security.protocol": protocol, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": LOGIN}
    cluster.security = ClientSecurity.of_properties(properties)


def test_a_password_is_set_by_mechanism(broker: UserBroker, cluster: Cluster) -> None:
    plan = set_user(cluster, of("SCRAM-SHA-256", "SCRAM-SHA-512", **ALICE, iterations="8192"))
    assert plan.summary == "Set the password of the user alice with SCRAM-SHA-256, SCRAM-SHA-512"
    assert plan.lines == [
        ChangeLine("alice SCRAM-SHA-256", None, "8192 iterations, the new password"),
        ChangeLine("alice SCRAM-SHA-512", "4096 iterations", "8192 iterations, the new password"),
    ]
    assert plan.command == (
        "headgate users add alice --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512 --iterations 8192"
    )
    assert broker.changes == []
    assert plan.apply(cluster).done == [
        "The password of alice is set: SCRAM-SHA-256",
        "The password of alice is set: SCRAM-SHA-512",
    ]
    changes = [each for request in broker.changes for each in request.upsertions]
    assert [(each.mechanism, each.iterations) for each in changes] == [(SHA_256, 8192), (SHA_512, 8192)]
    for each, mechanism in zip(changes, (SHA_256, SHA_512), strict=True):
        assert each.salted_password == salted_password(mechanism, PASSWORD.encode(), each.salt, 8192)


def test_a_new_user_has_the_default_mechanism(broker: UserBroker, cluster: Cluster) -> None:
    plan = set_user(cluster, of(user="new", password=PASSWORD))
    assert plan.summary == "Add the user new with SCRAM-SHA-512"
    assert plan.lines == [ChangeLine("new SCRAM-SHA-512", None, "4096 iterations, the new password")]
    plan.apply(cluster)
    assert broker.changes[0].upsertions[0].mechanism == SHA_512


def test_the_digest_knows_neither_salt_nor_password(cluster: Cluster) -> None:
    shown = [set_user(cluster, of(user="alice", password=each)).answer() for each in (PASSWORD, PASSWORD, "another")]
    assert shown[0] == shown[1] == shown[2]


def test_a_password_is_shown_logged_and_answered_nowhere(
    broker: UserBroker, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"parameters": {**ALICE, "password_again": PASSWORD}}
    texts: list[str] = []

    async def run() -> None:
        browser = Peer(make_app(ClusterAccess("127.0.0.1:9092", {}, is_loopback=True), may_write=True)[0])
        await browser.begin()
        plan = await browser.post("/api/changes/set_user/plan", given)
        apply = {**given, "digest": plan.json["digest"]}
        stale = await browser.post("/api/changes/set_user/apply", {**given, "digest": "old"})
        done = await browser.post("/api/changes/set_user/apply", apply)
        broker.error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        failed = await browser.post("/api/changes/set_user/apply", apply)
        assert failed.json["failures"], failed.json
        bad = [
            await browser.post("/api/changes/set_user/plan", {"parameters": {**ALICE, **wrong}})
            for wrong in ({"password": [PASSWORD, "b"]}, {"password_again": "b"}, {"iterations": "1"})
        ]
        assert [(each.status) for each in (plan, stale, done, failed, *bad)] == [200, 409, 200, 200, 400, 400, 400]
        texts.extend(json.dumps(each.json, ensure_ascii=False) for each in (plan, stale, done, failed, *bad))

    with caplog.at_level(logging.DEBUG):
        trio.run(run)
    assert len(broker.changes) == 2
    assert "the user alice" in caplog.text
    for text in (*texts, caplog.text):
        assert PASSWORD not in text
        assert "7719" not in text


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"user": ""}, "user: write the name"),
        ({"user": " a"}, "user: write the name, without blanks"),
        ({"password": ""}, "a password has 1 to 4096 bytes"),
        ({"password": "x" * 5000}, "a password has 1 to 4096 bytes"),
        ({"password_again": "other"}, "the two passwords differ"),
        ({"mechanism": "MD5"}, "mechanism=MD5 is none of SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"iterations": "4095"}, "iterations: '4095' is no number from 4096 to 16384"),
        ({"iterations": "many"}, "iterations: 'many' is no number"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_wrong_users_have_a_sentence(cluster: Cluster, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((BadParameter, UsageError), match=sentence):
        set_user(cluster, of(**{**ALICE, **given}))


def test_a_readable_connection_is_warned_of(cluster: Cluster) -> None:
    [readable] = set_user(cluster, of(**ALICE)).warnings
    assert readable.startswith("the connection to the broker is not encrypted")
    log_in(cluster, "SASL_SSL")
    assert set_user(cluster, of(user="bob", password=PASSWORD)).warnings == []


def test_the_own_login_is_warned_of(cluster: Cluster) -> None:
    log_in(cluster, "SASL_SSL")
    assert set_user(cluster, of(**ALICE)).warnings == ["it is your own login: log in again with the new password"]
    assert set_user(cluster, of("SCRAM-SHA-256", **ALICE)).warnings == []
    assert "it is your own login: you cannot log in again" in delete_user(cluster, of(user="alice")).warnings
    assert len(delete_user(cluster, of(user="bob")).warnings) == 1


def test_a_user_is_deleted_with_all_mechanisms(broker: UserBroker, cluster: Cluster) -> None:
    plan = delete_user(cluster, of(user="bob"))
    assert (plan.summary, plan.confirmation) == ("Delete the user bob", "bob")
    assert plan.lines == [
        ChangeLine("bob SCRAM-SHA-256", "8192 iterations"),
        ChangeLine("bob SCRAM-SHA-512", "4096 iterations"),
    ]
    assert plan.warnings[0].startswith("no new login by SCRAM-SHA-256, SCRAM-SHA-512 succeeds")
    assert plan.command == "headgate users remove bob --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512"
    assert plan.apply(cluster).done[0] == "The user bob is deleted: SCRAM-SHA-256"
    assert [each.deletions[0].mechanism for each in broker.changes] == [SHA_256, SHA_512]


def test_one_mechanism_is_deleted(broker: UserBroker, cluster: Cluster) -> None:
    plan = delete_user(cluster, of("SCRAM-SHA-256", user="bob"))
    assert plan.summary == "Delete SCRAM-SHA-256 of the user bob"
    plan.apply(cluster)
    assert [each.deletions[0].mechanism for each in broker.changes] == [SHA_256]


def test_unknown_users_and_mechanisms_are_problems(cluster: Cluster) -> None:
    assert delete_user(cluster, of(user="nobody")).problems == ["no user nobody logs in by SCRAM"]
    assert delete_user(cluster, of("SCRAM-SHA-256", user="alice")).problems == ["alice has no SCRAM-SHA-256"]


def test_a_refused_change_is_a_failure(broker: UserBroker, cluster: Cluster) -> None:
    plan = delete_user(cluster, of(user="alice"))
    broker.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    result = plan.apply(cluster)
    assert result.done == []
    assert result.failures[0].startswith("alice SCRAM-SHA-512: this principal may not do this")
