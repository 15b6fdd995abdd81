"""The changes behind `metadata_of_kafka41.log`, the metadata log of an Apache Kafka 4.1 with all kinds of security.

    python -m headgate.gateway.api.tests.under_acls.scenario properties PORT DIRECTORY > server.properties
    echo metadata.max.idle.interval.ms=0 >> server.properties
    python -m headgate.gateway.app.tests.security_scenario PORT
    cp DIRECTORY/__cluster_metadata-0/00000000000000000000.log metadata_of_kafka41.log

A Kafka is formatted and started with that file before the third line, and stopped after it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from typing import Any

from headgate.gateway.api.tests.under_acls.acl_sets import ADMIN
from headgate.gateway.api.tests.under_acls.scenario import Remote
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.describe_client_quotas import EntityData
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headgate.protocol.schema import Message

TOPIC, GROUP, LITERAL, PREFIXED, READ, DENY, ALLOW = 2, 3, 3, 4, 3, 2, 3
ITERATIONS = 4096
PASSWORD = b"secret of alice"


def change(ask: Callable[[Message, int], Any]) -> None:
    """Add and remove ACLs, passwords, quotas and tokens."""
    _change_acls(ask)
    _change_passwords(ask)
    _change_quotas(ask)
    _change_tokens(ask)


def _change_acls(ask: Callable[[Message, int], Any]) -> None:
    acls = [
        AclCreation(TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW),
        AclCreation(TOPIC, "ord", PREFIXED, "User:*", "10.0.0.1", READ, DENY),
        AclCreation(GROUP, "billing", LITERAL, "User:alice", "*", READ, ALLOW),
        AclCreation(TOPIC, "gone", LITERAL, "User:alice", "*", READ, ALLOW),
    ]
    assert not any(row.error_code for row in ask(CreateAclsRequest(acls), 3).results)
    ask(DeleteAclsRequest([DeleteAclsFilter(TOPIC, "gone", LITERAL, None, None, 1, 1)]), 3)


def _change_passwords(ask: Callable[[Message, int], Any]) -> None:
    def upsertion(user: str, mechanism: int, digest: str) -> ScramCredentialUpsertion:
        salted = hashlib.pbkdf2_hmac(digest, PASSWORD, b"salt", ITERATIONS)
        return ScramCredentialUpsertion(user, mechanism, ITERATIONS, b"salt", salted)

    for upsertions in (
        [upsertion("alice", 1, "sha256"), upsertion("bob", 1, "sha256")],
        [upsertion("alice", 2, "sha512")],
    ):
        assert not any(row.error_code for row in ask(AlterUserScramCredentialsRequest([], upsertions), 0).results)
    ask(AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", 1)], []), 0)


def _change_quotas(ask: Callable[[Message, int], Any]) -> None:
    def entry(entity: dict[str, str | None], key: str, value: float | None) -> EntryData:
        named = [EntityData(kind, name) for kind, name in entity.items()]
        return EntryData(named, [OpData(key, value or 0.0, value is None)])

    entries = [
        entry({"user": "alice"}, "producer_byte_rate", 1e6),
        entry({"user": None, "client-id": "a"}, "consumer_byte_rate", 2e6),
        entry({"ip": "10.0.0.1"}, "connection_creation_rate", 3.0),
        entry({"user": "gone"}, "request_percentage", 5.0),
    ]
    for change_of in (entries, [entry({"user": "gone"}, "request_percentage", None)]):
        assert not any(row.error_code for row in ask(AlterClientQuotasRequest(change_of), 1).entries)


def _change_tokens(ask: Callable[[Message, int], Any]) -> None:
    renewers = [CreatableRenewers("User", "alice")]
    kept = ask(CreateDelegationTokenRequest("User", "bob", renewers, 86_400_000), 3)
    gone = ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
    assert not kept.error_code
    assert not gone.error_code
    while ask(ExpireDelegationTokenRequest(gone.hmac, -1), 2).error_code:  # the broker does not know the token yet
        time.sleep(0.1)


if __name__ == "__main__":
    remote = Remote(int(sys.argv[1]))
    change(lambda request, version: remote.ask(ADMIN, request, version))
