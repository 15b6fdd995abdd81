"""The health of a broker, as probes ask for it: conditions, each with what it waits for and how far that is.

`/livez`     the loop turns, or nothing would answer: a process without an answer has to be restarted
`/startupz`  the broker has started: it listens, its logs were opened, it is registered; then for good
`/readyz`    clients and other brokers can use all that it has, now

Pure: facts in, conditions out. The status of an answer is 200 if all conditions are met, otherwise 503.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple

READY: Final = "ready"
WAITING: Final = "waiting"
_NONE: Final[Mapping[str, float | None]] = MappingProxyType({})


class HealthCondition(NamedTuple):
    """One condition. `waits_for` is empty if it is met; `progress` has numbers, each with its unit in its name."""

    name: str
    is_met: bool
    waits_for: str = ""
    progress: Mapping[str, float | None] = _NONE


class Loading(NamedTuple):
    """How far the logs are opened. Bytes are those to scan, none after a clean stop."""

    is_done: bool
    partitions_done: int
    partitions_total: int
    bytes_done: int
    bytes_total: int
    seconds_left: float | None
    """None while it is unknown."""


class Disk(NamedTuple):
    """One log directory."""

    path: str
    offline_reason: str | None
    is_hung: bool


LOOP: Final = HealthCondition("loop", is_met=True)


def listeners(*, is_open: bool, is_stopping: bool = False) -> HealthCondition:
    """Clients can connect, and the broker does not stop."""
    waits_for = "nothing: this broker is stopping" if is_stopping else "" if is_open else "the start of this broker"
    return HealthCondition("listeners", not waits_for, waits_for)


def logs(loading: Loading) -> HealthCondition:
    """All logs are open, or are known to be damaged."""
    progress: dict[str, float | None] = dict(loading._asdict())
    del progress["is_done"]
    left = loading.partitions_total - loading.partitions_done
    waits_for = "" if loading.is_done else f"the opening of {left} of {loading.partitions_total} partitions"
    return HealthCondition("logs", loading.is_done, waits_for, progress)


def coordinators(loading: Mapping[str, int]) -> HealthCondition:
    """The coordinators of groups and of transactions are loaded. `loading`: partitions by the name of their topic."""
    waits_for = " and ".join(f"{count} partitions of {topic} to load" for topic, count in loading.items() if count)
    return HealthCondition("coordinators", not waits_for, waits_for)


def registration(*, is_registered: bool, connect: str, is_in_doubt: bool = False) -> HealthCondition:
    """In a cluster, ZooKeeper at `connect` has this broker, whose loop has not stood still."""
    waits_for = ""
    if not is_registered:
        waits_for = f"the registration in ZooKeeper at {connect}"
    elif is_in_doubt:
        waits_for = f"ZooKeeper at {connect} to confirm the session, as this process stood still"
    return HealthCondition("registration", not waits_for, waits_for)


def controller(*, is_known: bool, knows_topics: bool) -> HealthCondition:
    """In a cluster, a broker is the controller, and has sent the topics."""
    waits_for = "" if knows_topics else "the controller to send the topics"
    return HealthCondition(
        "controller", is_known and knows_topics, waits_for if is_known else "a broker to be the controller"
    )


def disks(directories: Iterable[Disk]) -> HealthCondition:
    """All log directories take files."""
    reasons = []
    for path, offline_reason, is_hung in directories:
        if offline_reason is not None:
            reasons.append(f"{path}, which is offline: {offline_reason}")
        elif is_hung:
            reasons.append(f"{path}, whose disk does not respond")
    return HealthCondition("disks", not reasons, "; ".join(reasons))


def report(conditions: Sequence[HealthCondition]) -> tuple[HTTPStatus, str, list[Mapping[str, Any]]]:
    """The status of an answer; its word for people; a row for each condition."""
    is_ready = all(condition.is_met for condition in conditions)
    rows: list[Mapping[str, Any]] = [
        {
            "name": condition.name,
            "is_met": condition.is_met,
            "waits_for": condition.waits_for or None,
            **condition.progress,
        }
        for condition in conditions
    ]
    if is_ready:
        return HTTPStatus.OK, READY, rows
    return HTTPStatus.SERVICE_UNAVAILABLE, WAITING, rows
