"""Kafka's tool sets credentials and quotas of one user, and neither change touches the other.

    python -m compat_tests.security.test_users > user_configs_of_kafka.txt

The line records what the tool says with an Apache Kafka 4.1.2, which the program starts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka
from compat_tests.harness.broker import TARGET
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.security.login_broker import LoginBroker
from compat_tests.tools.kafka_tools import CONFIGS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
USER: Final = "dave of quotas"
PASSWORD: Final = "his"  # noqa: S105  of these tests
CREDENTIAL: Final = f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]"
STEPS: Final = (
    ("--alter", "--add-config", "producer_byte_rate=1048576,request_percentage=12.5"),
    ("--describe",),
    ("--alter", "--add-config", CREDENTIAL),
    ("--describe",),
    ("--alter", "--add-config", f"consumer_byte_rate=1,{CREDENTIAL}"),
    ("--alter", "--add-config", "SCRAM-SHA-512=[password=his]"),
    ("--alter", "--delete-config", "producer_byte_rate"),
    ("--describe",),
    ("--alter", "--delete-config", "SCRAM-SHA-512"),
    ("--alter", "--delete-config", "SCRAM-SHA-512"),
    ("--describe",),
    ("--alter", "--delete-config", "request_percentage"),
    ("--describe",),
    ("--alter", "--delete-config", "SCRAM-SHA-256"),
    ("--describe",),
)
_FAILURE: Final = re.compile(r"[\w.]*errors\.\w*Exception: .*|^[A-Z][^\n]* for 'users'[^\n]*", re.MULTILINE)


def scenario(jvm: ToolJvm, bootstrap: str) -> Iterator[str]:
    """A line for each step: its words, the exit code, and what the tool said."""
    names = ("--bootstrap-server", bootstrap, "--entity-type", "users", "--entity-name", USER)
    for words in STEPS:
        said = jvm.run(CONFIGS, *names, *words)
        failure = _FAILURE.search(said.errors)
        yield f"{' '.join(words)}\t{said.status}\t{said.output + (failure[0] if failure else '')!r}"


def test_credentials_and_quotas_of_a_user_stand_beside_each_other(logins: LoginBroker) -> None:
    kafkas = (Path(__file__).parent / "user_configs_of_kafka.txt").read_text().splitlines()
    jvm = ToolJvm("broker")
    try:
        assert list(scenario(jvm, logins.bootstrap)) == kafkas
    finally:
        jvm.close()


def record() -> None:
    """Write what an Apache Kafka does."""
    jvm = ToolJvm("broker")
    with ApacheKafka(heap="512m", options=QUICK_START) as kafka:
        for line in scenario(jvm, kafka.bootstrap):
            sys.stdout.write(f"{line}\n")
    jvm.close()


if __name__ == "__main__":
    record()
