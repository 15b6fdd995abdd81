"""Kafka's tool sets credentials and quotas of one user, and neither change touches the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.security.login_broker import LoginBroker
from compat_tests.security.user_configs import scenario

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")


def test_credentials_and_quotas_of_a_user_stand_beside_each_other(logins: LoginBroker) -> None:
    kafkas = (Path(__file__).parent / "user_configs_of_kafka.txt").read_text().splitlines()
    jvm = ToolJvm("broker")
    try:
        assert list(scenario(jvm, logins.bootstrap)) == kafkas
    finally:
        jvm.close()
