"""The child process that reads, decodes and searches, with limits of memory and CPU time.

    stdin    one line of JSON: a `WorkOrder`
    stdout   events, one JSON line each; or the bytes of a file
    stderr   if it fails, one line of JSON with a sentence

A record that fills the memory, or makes a library of C crash, ends this process and nothing else. It ends with its
parent too: a write to the closed pipe fails.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final, TypedDict

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.broker_http import CLIENT_ID
from headgate.tools.console.messages import export, query
from headgate.tools.console.messages.rows import MessageDecoder
from headgate.tools.console.messages.values.decoder import ValueDecoder
from headgate.tools.console.messages.values.protobuf import InvalidDescriptorSet, MessageTypes
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.schema_registry import SchemaError, open_source

SEARCH, DETAILS, PART, EXPORT = "search", "details", "part", "export"
MEMORY_BYTES: Final = 512 << 20
"""Of data; the process has some 40 MB usually, and more while it decodes a large batch."""
_CPU_S: Final = 900
_TIMEOUT_S: Final = 10.0
_REGISTRY_S: Final = 5.0
USAGE, FAILURE = 2, 1
"""Exit codes: a parameter is wrong; the cluster does not answer."""


class WorkOrder(TypedDict):
    """What the process is to do. `schemas`: a folder or a registry; `descriptor_set`: a file; both from the command."""

    work: str
    bootstrap: str
    properties: dict[str, str]
    parameters: list[tuple[str, str]]
    schemas: str | None
    descriptor_set: str | None


def main(source: BinaryIO, target: BinaryIO) -> int:
    """Do the work; return the exit code."""
    try:
        order: WorkOrder = json.loads(source.readline())
        for part in _work(order):
            target.write(part)
            target.flush()
    except BadParameter as error:
        return _fail(str(error), USAGE)
    except (ClientError, InvalidClientSecurity, SchemaError, InvalidDescriptorSet) as error:
        return _fail(str(error), FAILURE)
    except MemoryError:
        return _fail(f"the messages take more than {MEMORY_BYTES >> 20} MB of memory; read fewer, or others", FAILURE)
    return 0


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(json.dumps({"failure": sentence[:4000]}) + "\n")
    return code


def _work(order: WorkOrder) -> Iterator[bytes]:
    parameters = Parameters(order["parameters"])
    work = order["work"]
    asked = query.parse_query(parameters, export.MOST_RECORDS if work == EXPORT else query.MOST_ROWS)
    decoder = _decoder(order, asked)
    security = ClientSecurity.of_properties(order["properties"])
    with Cluster(order["bootstrap"], timeout_s=_TIMEOUT_S, security=security, client_id=CLIENT_ID) as cluster:
        match work:
            case "search":
                yield from map(_line, _reading(cluster, asked, decoder))
            case "details":
                from headgate.tools.console.messages.single_message import read_details

                yield _line(read_details(cluster, asked, decoder))
            case "part":
                from headgate.tools.console.messages.single_message import read_part

                yield read_part(cluster, asked, parameters)
            case "export":
                yield from export.export(cluster, asked, decoder, parameters.choice("format", export.FORMATS))


def _reading(cluster: Cluster, asked: query.MessageQuery, decoder: MessageDecoder) -> Iterator[dict[str, object]]:
    from headgate.tools.console.messages.search import MessageSearch
    from headgate.tools.console.messages.tail import Tail

    return (Tail if asked.start == query.LIVE else MessageSearch)(cluster, asked, decoder).run()


def _line(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _decoder(order: WorkOrder, asked: query.MessageQuery) -> MessageDecoder:
    """Raises SchemaError, InvalidDescriptorSet."""
    schemas = open_source(order["schemas"], _REGISTRY_S) if order["schemas"] else None
    messages = MessageTypes(order["descriptor_set"]) if order["descriptor_set"] else None
    keys = ValueDecoder(asked.key_format, f"{asked.topic}-key", schemas, messages, asked.message_type)
    values = ValueDecoder(asked.value_format, f"{asked.topic}-value", schemas, messages, asked.message_type)
    return MessageDecoder(asked.topic, keys, values, asked.filters.compile())


def limit_process() -> None:
    """Bound this process: memory, CPU time, no files, no core; and let others go first."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)


if __name__ == "__main__":
    limit_process()
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer))
