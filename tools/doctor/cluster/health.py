"""What Headgate says over HTTP: the conditions of `/readyz`, and the clock of `/v1/broker.json`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import PLAINTEXT, ClientError, parse_addresses
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.clocks import ClockReading
from headgate.tools.doctor.connecting.name import is_loopback
from headgate.tools.metrics import ReadError, read

_OF_HEALTH: Final = (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
_CURES: Final = {
    "listeners": "the broker is starting or stopping: its log says which",
    "logs": "wait until the logs are open; `headgate metrics` shows the seconds left",
    "coordinators": "wait until the groups and transactions are loaded",
    "disks": "repair or replace the disk, then restart the broker",
    "registration": "see the rows of ZooKeeper; the broker serves its clients meanwhile",
    "controller": "start the other brokers: nothing is created, and no leader is elected without a controller",
}


class BrokerHealth(NamedTuple):
    """The answers of one broker. `conditions`: rows of `/readyz`; `broker`: the object of `/v1/broker.json`."""

    address: str
    conditions: list[Mapping[str, Any]]
    broker: Mapping[str, Any]
    before_ms: float
    after_ms: float

    @property
    def clock(self) -> ClockReading:
        """The broker's clock: its start and its uptime."""
        now_ms = self.broker.get("started_ms", 0) + self.broker.get("uptime_ms", 0)
        return ClockReading(int(self.broker.get("node_id", -1)), now_ms, self.before_ms, self.after_ms)


def readable_address(setting: str, advertised_host: str) -> str | None:
    """`scheme://host:port` of `headgate.http.listeners` that this machine reaches; None for loopback elsewhere."""
    for part in filter(None, map(str.strip, setting.split(","))):
        scheme, _, address = part.partition("://")
        host, _, port = address.rpartition(":")
        if port in {"", "0"}:
            continue
        if not is_loopback(host.strip("[]")):
            known = advertised_host if host.strip("[]") in {"", "0.0.0.0", "::"} else host  # noqa: S104
            return f"{scheme}://{known}:{port}"
        if is_loopback(advertised_host):
            return part
    return None


def read_health(address: str, timeout_s: float, security: ClientSecurity) -> BrokerHealth | str:
    """The health of the broker with this HTTP address; a sentence if it cannot be read."""
    scheme, _, place = address.rpartition("://")
    used = security if scheme == "https" else PLAINTEXT
    try:
        host, port = parse_addresses(place)[0]
        ready = read(host, port, timeout_s, used, path="/readyz", accepted=_OF_HEALTH)
        before_ms = time.time() * 1000
        broker = read(host, port, timeout_s, used, path="/v1/broker.json")
        after_ms = time.time() * 1000
        return BrokerHealth(address, json.loads(ready)["conditions"], json.loads(broker), before_ms, after_ms)
    except (ReadError, ClientError) as error:
        return str(error)
    except (ValueError, KeyError, TypeError):
        return f"{address} does not answer as Headgate does"


def check_health(node: int, health: BrokerHealth) -> Iterator[CheckResult]:
    """A row for each condition that is not met, or one for all."""
    unmet = [row for row in health.conditions if not row.get("is_met")]
    for row in unmet:
        name = str(row.get("name"))
        found = f"broker {node} is not ready: {name} waits for {row.get('waits_for')}"
        yield CheckResult("health", WRONG if name in {"disks", "controller"} else NOTE, found, _CURES.get(name, ""))
    if not unmet:
        yield CheckResult("health", OK, f"broker {node} is ready")
