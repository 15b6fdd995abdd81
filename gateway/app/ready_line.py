"""The ready line: the only line that a broker prints on stdout. Programs that start a broker wait for this line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

READY = "headgate ready "


def ready_line(config: BrokerConfig, endpoints: Sequence[str]) -> str:
    """The ready line, for example `headgate ready PLAINTEXT://127.0.0.1:40123 node.id=0 log.dirs=/x`.

    `endpoints` are the real addresses of the listeners, ports included; commas separate them in the line.
    """
    return f"{READY}{','.join(endpoints)} node.id={config.node_id} log.dirs={','.join(config.log_directories)}"
