"""JSON of the brokers' HTTP listeners, for a visitor who may see it."""

from __future__ import annotations

from typing import Any

from headgate.tools.client.client import ClientError, SecurityError
from headgate.tools.console.broker_http import NO_ADDRESS, NOT_ALLOWED, ConsoleCluster, may_describe_cluster
from headgate.tools.console.resources.missing_parts import MissingParts


def read_documents(cluster: ConsoleCluster, path: str, part: str, missing: MissingParts) -> list[dict[str, Any]] | None:
    """The answers at a path of all listeners that the console knows; None if no listener may be asked.

    Reasons are noted under `part`. Raises SecurityError.
    """
    try:
        reason = _reason(cluster)
    except SecurityError:
        raise
    except ClientError as error:
        reason = str(error)
    if reason is not None:
        missing.note_sentences(part, [reason])
        return None
    documents = []
    for address in cluster.http.addresses:
        try:
            documents.append(cluster.http.json(address, path))
        except ClientError as error:
            missing.note_sentences(part, [str(error)])
    return documents


def _reason(cluster: ConsoleCluster) -> str | None:
    """The reason why no listener may be asked. Raises ClientError."""
    if not cluster.http.addresses:
        return NO_ADDRESS
    return None if may_describe_cluster(cluster) else NOT_ALLOWED
