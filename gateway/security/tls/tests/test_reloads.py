"""Reloads of all listeners: what begins one, what a refused one leaves, and settings that are tried first."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import config_records
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.security.tls.listener_tls import open_all
from headgate.gateway.security.tls.reloads import CHECK_INTERVAL_MS, TlsReloads
from headgate.protocol.internal.metadata import BROKER_RESOURCE
from headgate.protocol.security.tls.tests.certificates import NOW, Authority, Issued

ROOT = Authority("Root")
NAMES = ("ONE", "TWO")


class Node:
    """A broker's two listeners over TLS, each with a key store of its own, and the time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in NAMES:
            self.put(name, ROOT.issue("broker"))
        stores = {f"listener.name.{name.lower()}.ssl.keystore.location": str(self.path(name)) for name in NAMES}
        self.config = BrokerConfig.load(
            "",
            {
                "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
                "listener.security.protocol.map": "ONE:SSL,TWO:SSL,PLAINTEXT:PLAINTEXT",
                "ssl.keystore.type": "PEM",
                **stores,
            },
        )
        self.clock = ManualClock(int(NOW.timestamp() * 1000))
        self.scheduler = FakeScheduler(self.clock)
        self.tls = open_all(self.config, self.clock)
        self.reloads = TlsReloads(self.tls, self.config, self.scheduler)

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.pem"

    def put(self, name: str, issued: Issued) -> Path:
        new = self.directory / "new"
        new.write_text(issued.pem())
        return new.replace(self.path(name))

    def advance(self, milliseconds: float) -> None:
        self.clock.elapsed_ms += milliseconds
        self.scheduler.run_due()

    def contexts(self) -> list[object]:
        return [self.tls[name].context for name in NAMES]

    def alter(self, changes: Mapping[str, str]) -> None:
        """Change settings of this broker, as the metadata do."""
        old = Image.empty()
        new = old.apply_all(config_records(str(self.config.node_id), changes, BROKER_RESOURCE))
        self.config.change(*new.broker_configs(self.config.node_id))
        self.reloads.follow()
        self.scheduler.run_due()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    node.reloads.start()
    node.scheduler.run_due()
    return node


def test_a_new_file_is_read_at_the_next_check(node: Node) -> None:
    one, two = node.contexts()
    node.put("TWO", ROOT.issue("broker"))
    node.advance(CHECK_INTERVAL_MS - 1)
    assert node.contexts() == [one, two]
    node.advance(1)
    assert node.contexts()[0] is one
    assert node.contexts()[1] is not two
    one, two = node.contexts()
    for _ in range(3):
        node.advance(CHECK_INTERVAL_MS)
    assert node.contexts() == [one, two], "nothing has changed since"


def test_settings_of_an_earlier_run_count_before_the_first_client(tmp_path: Path) -> None:
    node = Node(tmp_path)
    one, two = node.contexts()
    other = tmp_path / "other.pem"
    other.write_text(ROOT.issue("broker").pem())
    node.alter({"listener.name.two.ssl.keystore.location": str(other)})
    assert node.contexts() == [one, two], "the broker has not started"
    node.reloads.start()
    assert node.contexts()[0] is one
    assert node.contexts()[1] is not two


def test_all_stores_are_read_when_that_is_asked_for(node: Node) -> None:
    one, two = node.contexts()
    node.reloads.reload_all()
    node.scheduler.run_due()
    assert node.contexts()[0] is not one
    assert node.contexts()[1] is not two


def test_asking_during_a_reload_begins_another_one(node: Node) -> None:
    threads = node.scheduler.hold()
    node.reloads.reload_all()
    node.reloads.reload_all()
    assert len(threads.waiting) == 1, "one at a time"
    threads.run_one()
    one, two = node.contexts()
    threads.run_all()
    assert node.contexts()[0] is not one
    assert node.contexts()[1] is not two


def test_a_refused_reload_says_so_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    old = node.contexts()
    node.put("ONE", ROOT.issue("other"))
    for _ in range(3):
        node.advance(CHECK_INTERVAL_MS)
    assert node.contexts() == old
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage().startswith("listener ONE: the new certificate has the name 'CN=other'")
    assert line.getMessage().endswith("; the stores from before stay in use")


def test_a_changed_setting_is_followed(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    one, two = node.contexts()
    path = node.put("THREE", ROOT.issue("broker"))
    node.alter({"listener.name.one.ssl.keystore.location": str(path)})
    assert node.contexts()[0] is not one
    assert node.contexts()[1] is two
    one = node.contexts()[0]
    node.alter({"listener.name.one.ssl.keystore.location": str(node.directory / "nothing")})
    assert node.contexts()[0] is one
    for _ in range(3):
        node.advance(CHECK_INTERVAL_MS)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    node.put("nothing", ROOT.issue("broker")).rename(node.directory / "nothing")
    node.advance(CHECK_INTERVAL_MS)
    assert node.contexts()[0] is not one, "the file is there now"


def test_settings_are_tried_before_they_are_stored(node: Node) -> None:
    name = "listener.name.one.ssl.keystore.location"

    def problem(text: str) -> str | None:
        config = node.config.with_dynamic({}, {name: text})
        work = node.reloads.check(config, {name: text})
        assert work is not None
        return work()

    old = node.contexts()
    assert problem(str(node.put("THREE", ROOT.issue("broker")))) is None
    refused = problem(str(node.put("FOUR", ROOT.issue("broker", days=(-9, -1)))))
    assert refused is not None
    assert refused.startswith("listener ONE: ssl.keystore.location=")
    assert "expired" in refused
    assert node.contexts() == old, "nothing is changed by that"
    assert node.config.texts(name)[0] is None
    assert node.reloads.check(node.config, {"message.max.bytes": "1"}) is None
    node.put("ONE", ROOT.issue("other"))
    refused = problem(str(node.path("ONE")))
    assert refused is not None, "the same path has another file"


def test_the_days_to_expiry_have_the_listener(node: Node) -> None:
    metrics = Metrics()
    node.reloads.measure(metrics)
    labels, values = metrics.read("tls.certificate.expiry.days")
    assert labels == ("listener",)
    assert list(values) == [(("ONE",), 30.0), (("TWO",), 30.0)]
