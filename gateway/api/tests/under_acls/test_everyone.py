"""Clients under ACLs for `User:*` are answered as by Kafka 4.1, whether or not those without an ACL may do all."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.api.tests.under_acls import everyone
from headgate.gateway.api.tests.under_acls.dispatching_broker import DispatchingBroker
from headgate.gateway.api.tests.under_acls.test_under_acls import DIFFERENCES, pairs_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("setting", ["true", "false"])
def test_everyone_is_answered_as_by_kafka(setting: str, tmp_path: Path) -> None:
    broker = DispatchingBroker(tmp_path, {everyone.SETTING: setting})
    try:
        answers = everyone.play(broker)
    finally:
        broker.node.close()
    recorded = everyone.recorded(setting)
    compared = recorded.keys() & answers.keys()
    assert len(compared) > 60
    different = {key: pairs for key in compared if (pairs := pairs_of(recorded[key], answers[key]))}
    reasons = {key: each for key in different for each in DIFFERENCES if each.has("41", *key)}
    left = {key: reasons[key].left(pairs) if key in reasons else pairs for key, pairs in different.items()}
    assert {key: pairs for key, pairs in left.items() if pairs} == {}
