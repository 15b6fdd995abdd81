"""Lag as Headgate's brokers survey it: verdicts, times of commits, and the groups of Spark, by `/v1/lag.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.tools.console.broker_http import ConsoleCluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.broker_documents import read_documents
from headgate.tools.console.resources.missing_parts import MissingParts

LAG: Final = "/v1/lag.json"


def lag_survey(cluster: ConsoleCluster, parameters: Parameters) -> dict[str, Any]:
    """The last survey of all brokers: groups without partitions, or the group `?group=name` with its partitions.

    `groups` is null if no broker has answered. Raises SecurityError, BadParameter.
    """
    missing = MissingParts()
    documents = read_documents(cluster, LAG, "verdicts", missing)
    if not documents:
        return {"groups": None, "measured_ms": None, "missing": missing}
    found = merge_surveys(documents)
    if parameters.has("group"):
        name = parameters.text("group")
        groups = [found[name]] if name in found else []
    else:
        groups = [_without_partitions(found[name]) for name in sorted(found)]
    return {"groups": groups, "measured_ms": min(one["measured_ms"] for one in documents), "missing": missing}


def merge_surveys(documents: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The groups of several brokers by name; of a group that two of them show, the one without an error."""
    groups: dict[str, Mapping[str, Any]] = {}
    for document in documents:
        for group in document["groups"]:
            known = groups.get(group["group"])
            if known is None or known["error"] is not None:
                groups[group["group"]] = group
    return groups


def _without_partitions(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "partitions"}
