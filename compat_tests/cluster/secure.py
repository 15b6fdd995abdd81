"""A cluster whose brokers reach each other by a listener of any security protocol. Clients have a plain one.

with SecureCluster(tmp_path, HEADGATE, SASL_SSL) as cluster: ...

cluster.roll(listeners=BOTH)                # a restart of one broker after the other, with other settings
cluster.roll(between=SECURE)
cluster.roll(listeners=(SECURE,))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from compat_tests.cluster.cluster import HEADGATE, IDS, KINDS, Cluster
from compat_tests.harness.apache_kafka import run_tool
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.kafka_target import KafkaZooKeeperBroker
from compat_tests.harness.ports import reserve
from compat_tests.security.client_security import make_certificates

SECURE, PLAIN = "SECURE", "PLAIN"
BOTH: Final = (PLAIN, SECURE)
USER, PASSWORD = "broker", "secret of the brokers"
MECHANISM: Final = "SCRAM-SHA-512"
_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
_CONFIGS: Final = "kafka.admin.ConfigCommand"


class SecureCluster(Cluster):
    """`protocol` is that of the listener `SECURE`. `authorizer`: whether ACLs decide; brokers are super users then."""

    def __init__(
        self,
        directory: Path,
        kind: str = HEADGATE,
        protocol: str = "SASL_SSL",
        settings: Mapping[str, str] | None = None,
        *,
        listeners: Sequence[str] = (SECURE,),
        between: str = SECURE,
        has_client_certificates: bool = False,
        **more: Any,
    ) -> None:
        self.protocol = protocol
        self.certificates = make_certificates(directory / "certificates", "broker", "client")
        self.listeners, self.between = tuple(listeners), between
        self.has_client_certificates = has_client_certificates
        self.ports: dict[int, dict[str, int]] = {}
        stores = settings_of_stores(self.certificates)
        super().__init__(directory, kind, {**stores, **(settings or {})}, new_broker=self.make_broker, **more)

    def prepare(self) -> None:
        """Have the user of the brokers in ZooKeeper before the first of them starts, as Kafka needs it."""
        if self.protocol.startswith("SASL_"):
            add_user(self.zookeeper.connect)

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        ports = self.ports.setdefault(broker_id, {name: reserve(self, 0) for name in ("CLIENTS", *BOTH)})
        names = (*self.listeners, "CLIENTS")  # the last one is the address of the broker
        found = {
            "listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names),
            "advertised.listeners": ",".join(f"{name}://localhost:{ports[name]}" for name in names),
            "listener.security.protocol.map": f"CLIENTS:PLAINTEXT,{PLAIN}:PLAINTEXT,{SECURE}:{self.protocol}",
            "inter.broker.listener.name": self.between,
        }
        if self.protocol.startswith("SASL_") and SECURE in self.listeners:
            found |= {
                "sasl.mechanism.inter.broker.protocol": MECHANISM,
                "listener.name.secure.sasl.enabled.mechanisms": MECHANISM,
                f"listener.name.secure.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM,
            }
        if self.has_client_certificates:
            found["listener.name.secure.ssl.client.auth"] = "required"
        return found

    def make_broker(self, directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
        broker = KINDS[self.kinds[broker_id]](directory, broker_id, connect, settings)
        port = self.ports[broker_id]["CLIENTS"]
        if isinstance(broker, HeadgateBroker):
            broker.port, broker.has_reserved = port, True
        elif isinstance(broker, KafkaZooKeeperBroker):
            broker.kafka.port = port
        return broker

    def roll(self, *, listeners: Sequence[str] | None = None, between: str | None = None) -> None:
        """Restart one broker after the other with other settings, each once every set is full again."""
        self.listeners = self.listeners if listeners is None else tuple(listeners)
        self.between = self.between if between is None else between
        for one in IDS:
            self.stop(one)
            broker = self.brokers[one]
            assert isinstance(broker, HeadgateBroker)
            kept = {name: text for name, text in broker.settings.items() if not name.startswith("listener.name.")}
            broker.settings = {**kept, **self.settings_of(one)}
            self.start(one)
            self.wait_for_full_sets()


def settings_of_stores(certificates: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
    }


def add_user(connect: str, user: str = USER, password: str = PASSWORD) -> None:
    """Add a user of SCRAM by Kafka's tool: it writes to ZooKeeper, as there is no broker yet."""
    change = ("--alter", "--add-config", f"{MECHANISM}=[password={password}]")
    entity = ("--entity-type", "users", "--entity-name", user)
    run_tool(_CONFIGS, "--zookeeper", connect, *change, *entity, jar_set="broker28")
