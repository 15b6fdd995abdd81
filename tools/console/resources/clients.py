"""The clients of the cluster: the connections of Headgate's brokers; of any Kafka, members of groups and producers."""

from __future__ import annotations

from typing import Final

from headgate.tools.client.client import ClientError, SecurityError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.broker_http import NO_ADDRESS, NOT_ALLOWED, ConsoleCluster, may_describe_cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.connections import connection_rows
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.console.resources.wire_clients import member_rows, producer_rows
from headgate.tools.output import Row

MAX_ROWS: Final = 10_000
"""Of one answer; `total` counts all."""


def connections(cluster: ConsoleCluster, _: Parameters) -> Row:
    """The open connections of all brokers whose HTTP listeners the console knows, with rates."""
    if not cluster.http.addresses:
        return _unknown(NO_ADDRESS)
    try:
        if not may_describe_cluster(cluster):
            return _unknown(NOT_ALLOWED)
    except SecurityError:
        raise
    except ClientError as error:
        return _unknown(str(error))
    rows, omitted, missing = list[Row](), 0, MissingParts()
    for address in cluster.http.addresses:
        try:
            sampled = cluster.http.connections.sample(address)
        except ClientError as error:
            missing.note_sentences("connections", [str(error)])
            continue
        rows += connection_rows(sampled)
        omitted += sampled.document["omitted"]
    if len(missing) == 1 and not rows:
        return {"connections": None, "omitted": None, "missing": missing}
    omitted += max(0, len(rows) - MAX_ROWS)
    return {"connections": rows[:MAX_ROWS], "omitted": omitted, "missing": missing}


def _unknown(reason: str) -> Row:
    return {"connections": None, "omitted": None, "missing": {"connections": reason}}


def members(cluster: Cluster, _: Parameters) -> Row:
    """The members of all groups that the visitor may describe. Raises ClientError."""
    missing = MissingParts()
    rows = member_rows(cluster, missing)
    return {"members": rows[:MAX_ROWS], "total": len(rows), "missing": missing}


def producers(cluster: Cluster, _: Parameters) -> Row:
    """The producers that partitions remember. Raises ClientError."""
    missing = MissingParts()
    rows = producer_rows(cluster, missing)
    return {"producers": rows[:MAX_ROWS], "total": len(rows), "missing": missing}
