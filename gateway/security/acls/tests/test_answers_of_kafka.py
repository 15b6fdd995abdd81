"""Decisions are those of Kafka: StandardAuthorizer of 4.1, AclAuthorizer of 3.9, networks of 4.4; see `asked.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.security.acls.tests.asked import ASKED_ADDRESSES, NETWORKS, Block, blocks
from headgate.protocol.security.acls import hosts
from headgate.protocol.security.acls.decision import AclPolicy, decide, decide_any
from headgate.protocol.security.acls.index import AclIndex

HERE = Path(__file__).parent
RECORDED = (HERE / "answers_of_kafka.txt").read_text().splitlines()
OF_NETWORKS = (HERE / "networks_of_kafka.txt").read_text().splitlines()
NEVER_A_CLIENT = "0.0.0.0"
"""Kafka counts this address to no network."""
BLOCKS = [*blocks()]


def answered(block: Block, *, as_acl_authorizer: bool) -> str:
    index = AclIndex.empty().changed((), block.bindings)
    super_users = frozenset(filter(None, block.super_users.split(";")))
    policy = AclPolicy(super_users, block.allow_everyone, as_acl_authorizer)
    answers = ""
    for asked in block.questions:
        who = index, policy, asked.principal, index.hosts_of(asked.host), asked.operation, asked.resource
        decision = decide_any(*who) if asked.name is None else decide(*who, asked.name)
        answers += str(int(decision.is_allowed))
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("as_acl_authorizer", [False, True], ids=["4.1 StandardAuthorizer", "3.9 AclAuthorizer"])
def test_each_decision_is_that_of_kafka(as_acl_authorizer: bool) -> None:
    assert len(RECORDED) == len(BLOCKS)
    for block, line in zip(BLOCKS, RECORDED, strict=True):
        expected = line.split()[-1 if as_acl_authorizer else 0]
        assert answered(block, as_acl_authorizer=as_acl_authorizer) == f"{int(expected, 16):032b}", block


def test_the_recorded_answers_differ_enough_to_find_a_mistake() -> None:
    allowed = sum(int(line.split()[0], 16).bit_count() for line in RECORDED)
    assert 0.25 < allowed / (32 * len(RECORDED)) < 0.75
    assert sum(" " in line for line in RECORDED) > 50, "the two authorizers differ about any resource"


@pytest.mark.parametrize("network, line", [*zip(NETWORKS, OF_NETWORKS, strict=True)])
def test_a_network_has_the_addresses_that_kafka_counts(network: str, line: str) -> None:
    for address, answer in zip(ASKED_ADDRESSES, line, strict=True):
        if address != NEVER_A_CLIENT:
            found = hosts.network_of(network)
            assert (found is None) == (answer == "-"), network
            assert (found in hosts.networks_with(address)) == (answer == "1"), (network, address)
