"""The one line on stdout of a broker that is ready: programs that start a broker wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

READY = "headgate ready "


def ready_line(config: BrokerConfig, endpoints: Sequence[str]) -> str:
    """`headgate ready PLAINTEXT://127.0.0.1:40123 node.id=0 log.dirs=/x`: what programs that start a broker wait for.

    `endpoints` are what is really listened on, ports included; several are separated by commas.
    """
    return f"{READY}{','.join(endpoints)} node.id={config.node_id} log.dirs={','.join(config.log_directories)}"
