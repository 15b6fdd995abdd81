"""The ready line: the only line that a broker prints on stdout. Programs that start a broker wait for this line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

READY = "headgate ready "


HTTP, CONSOLE = " http=", " console="


def http_endpoints_of(line: str) -> list[str]:
    """The addresses of the HTTP listeners in a ready line; none where there are none."""
    return line.partition(HTTP)[2].partition(" ")[0].split(",") if HTTP in line.partition(" log.dirs=")[0] else []


def ready_line(
    config: BrokerConfig,
    endpoints: Sequence[str],
    http_endpoints: Sequence[str] = (),
    console_endpoints: Sequence[str] = (),
) -> str:
    """The ready line: `headgate ready PLAINTEXT://127.0.0.1:40123 node.id=0 http=http://127.0.0.1:9644 log.dirs=/x`.

    The endpoints are the real addresses of the listeners, ports included; commas separate them in the line. Without
    HTTP there is no `http=`, without a console no `console=`.
    """
    http = f"{HTTP}{','.join(http_endpoints)}" if http_endpoints else ""
    console = f"{CONSOLE}{','.join(console_endpoints)}" if console_endpoints else ""
    directories = ",".join(config.log_directories)
    return f"{READY}{','.join(endpoints)} node.id={config.node_id}{http}{console} log.dirs={directories}"
