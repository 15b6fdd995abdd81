"""The messages of a topic: searched, one in all detail, and as files; all by a process of its own (`messages/`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import child, export, schema_options
from headgate.tools.console.messages.process import DETAILS, EXPORT, PART, SEARCH, WorkOrder
from headgate.tools.console.messages.query import MOST_PARTITIONS, MOST_ROWS, parse_query
from headgate.tools.console.messages.single_message import PARTS
from headgate.tools.console.messages.values.decoder import FORMATS
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resource_table import Download

_EXPORT_SILENT_S: Final = export.LONGEST_S + child.SILENT_S


def messages(cluster: Cluster, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """The events of a search, or of a live view. Raises ClientError, BadParameter."""
    parse_query(parameters)
    return child.read_events(_order(SEARCH, cluster, parameters))


def message(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """One message by `partition` and `offset`, with all its fields. Raises ClientError, BadParameter."""
    return _last(child.read_events(_order(DETAILS, cluster, _of_one_message(parameters))))


def _last(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    found = None
    for event in events:
        found = event if event.get("event") != "waiting" else found
    if found is None:
        raise ClientError("the reading process has no answer")
    return found


def message_part(cluster: Cluster, parameters: Parameters) -> Download:
    """The bytes of the `part` of one message. Raises BadParameter."""
    checked = _of_one_message(parameters)
    query, part = parse_query(checked), checked.choice("part", PARTS)
    name = f"{query.topic}-{query.partitions[0]}-{query.offset}-{part}"
    order = _order(PART, cluster, checked)
    return Download(name, "application/octet-stream", child.read_bytes(order, child.SILENT_S))


def messages_export(cluster: Cluster, parameters: Parameters) -> Download:
    """The file of a search, in the order of partitions. Raises BadParameter."""
    query = parse_query(parameters, export.MOST_RECORDS)
    file_format = parameters.choice("format", export.FORMATS)
    parts = child.read_bytes(_order(EXPORT, cluster, parameters), _EXPORT_SILENT_S)
    return Download(f"{query.topic}.{export.ENDINGS[file_format]}", export.MEDIA_TYPES[file_format], parts)


def message_formats(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """What a page can offer: formats, message types of Protobuf, and bounds."""
    options = schema_options.current()
    return {
        "formats": FORMATS,
        "has_schemas": options.schemas is not None,
        "message_types": options.message_types,
        "most_rows": MOST_ROWS,
        "most_partitions": MOST_PARTITIONS,
        "most_exported": export.MOST_RECORDS,
    }


def _of_one_message(parameters: Parameters) -> Parameters:
    """The parameters of one message as those of a search that begins there. Raises BadParameter."""
    query = parse_query(Parameters([*parameters.pairs(), ("start", "offset")]))
    if len(query.partitions) != 1:
        raise BadParameter("a message has one partition: partition=0")
    return Parameters([*parameters.pairs(), ("start", "offset")])


def _order(work: str, cluster: Cluster, parameters: Parameters) -> WorkOrder:
    options = schema_options.current()
    return {
        "work": work,
        "bootstrap": cluster.bootstrap,
        "properties": cluster.security.properties,
        "parameters": parameters.pairs(),
        "schemas": options.schemas,
        "descriptor_set": options.descriptor_set,
    }
