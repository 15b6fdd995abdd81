"""Apache Kafka 4.1, or 3.9, in the place of the broker under test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from compat_tests import toolchain
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.broker import Broker


class KafkaBroker(Broker):
    """The verbs of `Broker` over `ApacheKafka`."""

    # What costs Kafka seconds on every start and says nothing about these tests: above all its controller, which gives
    # a killed broker its id back only when the session is over
    SETTINGS: ClassVar[Mapping[str, str]] = {
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
    }

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, jar_set: str = "broker") -> None:
        toolchain.jars(jar_set)
        self.kafka = ApacheKafka({**self.SETTINGS, **(settings or {})}, jar_set=jar_set, directory=directory)
        super().__init__(directory, self.kafka.logs, self.kafka.output)

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def pid(self) -> int:
        return self.kafka.pid

    def start(self) -> float:
        self.kafka.start()
        return self.kafka.ready_s

    def stop(self) -> None:
        self.kafka.stop()

    def kill(self) -> None:
        self.kafka.kill()

    def restart(self) -> float:
        """By SIGKILL.

        A clean stop takes it ten seconds. Either way it remembers the last batch of a producer only (test_retries.py):
        a client with more in flight may write twice, and test_across_restarts can fail on it for this reason.
        """
        self.kill()
        return self.start()

    def is_running(self) -> bool:
        return self.kafka.process is not None
