"""The history of a round: each operation of each client, with its times, values and offsets.

A file has one event a line: `invoke` when a client asks, then `ok`, `fail` or `info` when the client knows the outcome.
`fail` says that nothing happened, `info` that the outcome is not known. Both events of an operation have its process
and its number; the later event adds to the fields of the first one:

    {"type": "invoke", "time_ns": 1, "process": "java-0", "operation": 7, "kind": "transaction",
     "writes": [["t-0", "a"]]}
    {"type": "ok", "time_ns": 9, "process": "java-0", "operation": 7, "decided_ns": 8,
     "writes": [["t-0", "a", 41, "ok"]], "reads": [["t-1", 5, "b"]], "group": "g", "offsets": {"t-1": 6}}

Kinds of operations, and what their fields mean. A key is a topic and a partition, each value is written once:

    send         `writes` without a transaction
    transaction  `writes`, `reads`, and with `offsets` those that the transaction commits; `decided_ns` is the time of
                 the request to commit. `ok` is a commit, `fail` an abort
    poll         `reads` outside of a transaction
    assign       the process reads from the positions in `offsets` on; a null: the position is not known
    committed    `offsets` of a `group`, as the coordinator told them
    ends         `offsets` are the last stable offsets, `ends` the high watermarks, after all clients have ended
    fault, heal  what the round did to the brokers; after the last heal clients must succeed within `bound_s`
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
# Fields of an operation that are in its events as they are
PLAIN: Final = frozenset({"group", "offsets", "ends", "decided_ns", "bound_s", "text"})


class Write(NamedTuple):
    """A value for a partition; the offset is None where the client was told none."""

    key: str
    value: str
    offset: int | None = None
    outcome: str = INFO


class Read(NamedTuple):
    """A record that a consumer was given."""

    key: str
    offset: int
    value: str


@dataclass(slots=True, eq=False)
class Operation:
    """An operation with its outcome; `ended_ns` is None where the client never knew one."""

    process: str
    number: int
    kind: str
    began_ns: int
    ended_ns: int | None = None
    outcome: str = INFO
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    group: str = ""
    offsets: dict[str, int | None] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    decided_ns: int | None = None
    bound_s: float = 0.0
    text: str = ""

    def __str__(self) -> str:
        """One line for a person; the times are in seconds of the machine's clock."""
        until = "never" if self.ended_ns is None else f"{self.ended_ns / 1e9:.3f}"
        shown = {name: getattr(self, name) for name in ("text", "writes", "reads", "group", "offsets", "ends")}
        rest = " ".join(f"{name}={compact(value)}" for name, value in shown.items() if value)
        return f"{self.process} #{self.number} {self.kind} {self.outcome} {self.began_ns / 1e9:.3f}-{until} {rest}"


def compact(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 400 else f"{text[:400]}..."


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """A long history is a million objects without circles: the collector would walk them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@without_collector()
def operations(events: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Join the events of each operation; the operations are in the order of their invocations."""
    found: dict[tuple[str, int], Operation] = {}
    for event in sorted(events, key=lambda event: event["time_ns"]):
        identity = event["process"], event["operation"]
        operation = found.get(identity)
        if operation is None:
            operation = found[identity] = Operation(*identity, event["kind"], event["time_ns"])
        if event["type"] != "invoke":
            operation.ended_ns, operation.outcome = event["time_ns"], event["type"]
        _take(operation, event)
    return list(found.values())


def _take(operation: Operation, event: Mapping[str, Any]) -> None:
    for name in event.keys() & PLAIN:
        setattr(operation, name, event[name])
    if "writes" in event:
        operation.writes = [Write(*write) for write in event["writes"]]
    if "reads" in event:
        operation.reads = [Read(*read) for read in event["reads"]]


@without_collector()
def load(lines: Iterable[str]) -> list[Operation]:
    """The operations of a history file."""
    return operations(json.loads(line) for line in lines if line.strip())
