"""The verdict of the census on each client of the matrix is what Apache Kafka 4.1 does with that client."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.census.exercise import exercise, works_on_kafka41
from compat_tests.harness.broker import TARGET, HeadgateBroker, installed_command
from compat_tests.harness.kafka_target import KafkaBroker
from compat_tests.harness.waiting import until
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import ROWS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="a Kafka has no census")

INTERVAL_MS: Final = 500
NAMES: Final = {f"R{number}": client.name for number, client in enumerate(ROWS)}
"""The listener of each client: so the census tells them apart, whatever they call themselves."""
QUICK: Final = (
    "librdkafka 1.4.2",
    "librdkafka 1.9.2",
    "sarama v1.19.0 at 1.0",
    "sarama v1.61.1",
)
"""Clients of both kinds that start within a moment."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadgateBroker]:
    names = ("PLAINTEXT", *NAMES)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "group.initial.rebalance.delay.ms": "0",
        "headgate.census": "true",
        "headgate.census.interval.ms": str(INTERVAL_MS),
    }
    broker = HeadgateBroker(tmp_path_factory.mktemp("census"), settings)
    broker.start()
    yield broker
    broker.stop()


def census(broker: HeadgateBroker, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the rows of `headgate census`."""
    bootstrap = f"127.0.0.1:{broker.ports()['PLAINTEXT']}"
    command = [*installed_command(), "census", "--bootstrap-server", bootstrap, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def verdicts(rows: Iterable[dict[str, Any]]) -> dict[str, bool]:
    """By the name of a client, whether it works on the target."""
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row["listener"] in NAMES:
            found[NAMES[row["listener"]]].append(not row["kafka"]["breaks"])
    return {name: all(works) for name, works in found.items()}


def assert_verdicts(broker: HeadgateBroker, clients: Iterable[Client]) -> None:
    """Each client connects; the census of 4.1 says of each what Kafka 4.1 does, and 3.9 breaks none."""
    ports, listeners = broker.ports(), {name: listener for listener, name in NAMES.items()}
    for client in clients:
        client.command()
        exercise(client, f"127.0.0.1:{ports[listeners[client.name]]}")
    names = {client.name for client in clients}
    expected = {name: works for name, works in works_on_kafka41().items() if name in names}
    until(lambda: verdicts(census(broker)[1]).keys() >= names, "the census to have all clients", 30)
    code, rows = census(broker, "--target", "4.1")
    found = verdicts(rows)
    assert {name: works for name, works in found.items() if name in names} == expected
    assert code == (0 if all(found.values()) else 3)
    assert census(broker, "--target", "3.9")[0] == 0


def test_verdicts_are_what_kafka_41_does(broker: HeadgateBroker) -> None:
    """Both kinds are there."""
    clients = [client for client in ROWS if client.name in QUICK]
    assert len(clients) == len(QUICK)
    assert {works_on_kafka41()[name] for name in QUICK} == {True, False}
    assert_verdicts(broker, clients)


@pytest.mark.soak
def test_verdicts_on_all_clients_are_what_kafka_41_does(broker: HeadgateBroker) -> None:
    assert_verdicts(broker, ROWS)


@pytest.mark.soak
def test_kafka_41_does_what_is_written_down(tmp_path: Path) -> None:
    """The clients run against a real one."""
    kafka = KafkaBroker(tmp_path)
    kafka.start()
    try:
        assert {client.name: works(client, kafka.bootstrap) for client in ROWS} == works_on_kafka41()
    finally:
        kafka.kill()


def works(client: Client, bootstrap: str) -> bool:
    client.command()
    try:
        exercise(client, bootstrap)
    except (AssertionError, subprocess.TimeoutExpired):
        return False
    return True
