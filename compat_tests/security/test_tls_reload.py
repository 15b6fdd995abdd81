"""Certificates are replaced while clients send and read: by a new file, by SIGHUP, by `kafka-configs`."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import TARGET
from compat_tests.harness.soak import SOAK
from compat_tests.harness.tool_jvm import Said, ToolJvm
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import PASSWORD, Security, of_librdkafka
from compat_tests.security.load import Load
from compat_tests.security.secure_broker import HOST, TLS, SecureBroker
from compat_tests.tools.kafka_tools import CONFIGS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line")
TIMES: Final = 100 if SOAK else 5
# An authority whose key is in a file, so that it signs again
ISSUE: Final = """
import sys
from pathlib import Path
from headgate.protocol.security.tls.tests.certificates import Authority
directory, count = Path(sys.argv[1]), int(sys.argv[2])
authority = Authority("Renewing CA")
(directory / "ca.pem").write_text(authority.pem())
for number in range(count):
    issued = authority.issue("broker", days=(-1, 30 + number))
    (directory / f"broker-{number}.pem").write_text(issued.pem())
    (directory / f"broker-{number}.p12").write_bytes(issued.pkcs12())
(directory / "stranger.pem").write_text(authority.issue("stranger").pem())
"""


class Renewed:
    """A broker whose key store is `current`, with certificates of one authority to put there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "renewed"
        self.directory.mkdir()
        subprocess.run(
            [sys.executable, "-c", ISSUE, str(self.directory), str(TIMES + 3)], cwd=ROOT, check=True, timeout=60
        )
        self.current = self.directory / "current.pem"
        self.number = 0
        self.put(0)
        self.broker = SecureBroker(
            directory,
            {
                "ssl.keystore.location": str(self.current),
                "ssl.truststore.location": str(self.directory / "ca.pem"),
                "headgate.http.listeners": "http://127.0.0.1:0",
            },
        )

    def put(self, number: int | str) -> None:
        """As tools that renew certificates do: a new file takes the place of the old one."""
        new = self.current.with_suffix(".new")
        new.write_bytes((self.directory / (number if isinstance(number, str) else f"broker-{number}.pem")).read_bytes())
        new.replace(self.current)

    def put_next(self) -> None:
        """A certificate that was not there before."""
        self.number += 1
        self.put(self.number)

    def shown(self) -> bytes:
        """The certificate that a new client is shown, in DER."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        with (
            socket.create_connection(("127.0.0.1", self.broker.ports()[TLS]), 10) as tcp,
            context.wrap_socket(tcp, server_hostname=HOST) as stream,
        ):
            return stream.getpeercert(binary_form=True) or b""

    def signal_reload(self) -> None:
        os.kill(self.broker.pid, signal.SIGHUP)

    def until_shown_is_not(self, old: bytes) -> bytes:
        until(lambda: self.shown() != old, "the new certificate", 20, 0.05)
        return self.shown()


@pytest.fixture(scope="module")
def renewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renewed]:
    renewed = Renewed(tmp_path_factory.mktemp("reload"))
    renewed.broker.start()
    try:
        yield renewed
    finally:
        renewed.broker.stop()


def test_certificates_are_replaced_under_load(renewed: Renewed) -> None:
    """No connection is lost, no client has an error, and each new connection is shown the new certificate."""
    topic = new_topic(renewed.broker.bootstrap, 1)
    security = of_librdkafka(Security(renewed.directory))
    with Load(renewed.broker.address(TLS), topic, security) as load:
        shown = renewed.shown()
        for _ in range(TIMES):
            renewed.put_next()
            renewed.signal_reload()
            shown = renewed.until_shown_is_not(shown)
            load.wait_for(50)
            load.reconnect()
    assert not load.errors
    assert load.received == load.acknowledged


def test_a_file_is_noticed_by_itself(renewed: Renewed) -> None:
    shown = renewed.shown()
    renewed.put_next()
    renewed.until_shown_is_not(shown)


def test_what_cannot_be_used_leaves_the_old_stores(renewed: Renewed) -> None:
    """The log says why, once for each attempt: SIGHUP is one, a check of the files before it another."""
    shown, lines = renewed.shown(), len(renewed.broker.error_lines())
    renewed.put("stranger.pem")
    renewed.signal_reload()

    def refused() -> list[str]:
        return [line for line in renewed.broker.error_lines()[lines:] if "the stores from before stay in use" in line]

    # Each listener over TLS has the same store
    until(lambda: len(refused()) >= 3, "the sentences of the log", 10)
    assert all("the new certificate has the name 'CN=stranger' in place of 'CN=broker'" in line for line in refused())
    assert renewed.shown() == shown
    renewed.put_next()
    renewed.signal_reload()
    until(lambda: any("new stores are in use" in line for line in renewed.broker.error_lines()[lines:]), "a reload", 10)
    assert len(refused()) in {3, 6}


def test_kafka_configs_gives_a_listener_other_stores(tmp_path: Path) -> None:
    """What cannot be used is refused, and not stored."""
    renewed = Renewed(tmp_path)
    renewed.broker.start()
    try:
        change_stores(renewed)
    finally:
        renewed.broker.stop()


def change_stores(renewed: Renewed) -> None:
    jvm, shown = ToolJvm("broker"), renewed.shown()
    store = renewed.directory / f"broker-{TIMES + 2}.p12"

    def alter(store: Path) -> Said:
        prefix = "listener.name.ssl.ssl.keystore"
        settings = {"location": str(store), "type": "PKCS12", "password": PASSWORD}
        added = ",".join(f"{prefix}.{name}={value}" for name, value in settings.items())
        where = ("--bootstrap-server", renewed.broker.bootstrap, "--entity-type", "brokers", "--entity-name", "0")
        return jvm.run(CONFIGS, *where, "--alter", "--add-config", added)

    try:
        refused = alter(renewed.directory / "nothing.p12")
        assert refused.status != 0
        assert (
            "The new settings cannot be used: listener SSL: ssl.keystore.location=" in refused.errors + refused.output
        )
        assert "there is no such file" in refused.errors + refused.output
        assert renewed.shown() == shown
        altered = alter(store)
        assert altered.status == 0, altered
    finally:
        jvm.close()
    shown = renewed.until_shown_is_not(shown)
    renewed.broker.restart()
    assert renewed.shown() == shown, "the settings survive a restart"


def test_the_days_to_expiry_are_a_metric(renewed: Renewed) -> None:
    with urllib.request.urlopen(f"{renewed.broker.http()}/metrics", timeout=10) as answer:  # noqa: S310  of the broker
        text = answer.read().decode()
    days = {
        line.split('"')[1]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("headgate_tls_certificate_expiry_days{")
    }
    assert days.keys() == {"SSL", "MUTUAL", "OPTIONAL"}
    assert all(29 < value < 30 + TIMES + 3 for value in days.values())
