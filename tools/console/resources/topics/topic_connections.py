"""The connections that write or read a topic, as Headgate's brokers name them."""

from __future__ import annotations

from typing import Final

from headgate.tools.console.broker_http import ConsoleCluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.clients import connections
from headgate.tools.output import Row

_FIELDS: Final = (
    *("broker", "principal", "client_id", "software_name", "software_version", "address", "port", "listener"),
    *("opened_ms", "is_broker", "is_throttled", "in_bytes_per_second", "out_bytes_per_second"),
)


def topic_connections(cluster: ConsoleCluster, parameters: Parameters) -> Row:
    """The connections with `writes` or `reads` of the topic `?topic=name`. `connections` is null if none is known.

    Rates are those of the whole connection. Raises SecurityError, BadParameter.
    """
    name = parameters.text("topic")
    answer = connections(cluster, parameters)
    if answer["connections"] is None:
        return answer
    rows = []
    for row in answer["connections"]:
        writes, reads = name in row["topics_written"], name in row["topics_read"]
        if writes or reads:
            rows.append({**{field: row[field] for field in _FIELDS}, "writes": writes, "reads": reads})
    return {**answer, "connections": rows}
