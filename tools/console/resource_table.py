"""The table of resources: `GET /api/NAME?parameter=value` is answered by the function behind the name.

To add one: write `resources/MODULE.py` with a function of `(Cluster, Parameters)`, and a line in RESOURCES. The module
is imported by the first request. The function runs in a thread, and blocks as any tool does. The kinds:

- ANSWER: the function returns a dict (JSON).
- EVENTS: the function is a generator; each dict that it yields is one event of a server-sent stream. It should yield at
  least once a second, if only its progress: between two events the stream ends when the visitor leaves. A generator's
  `finally` runs then. The page reads it with `useStream` of `components/resource.js`.
- DOWNLOAD: the function returns a `Download`, whose parts are made while they are sent.

`ClientError` and `BadParameter` are sentences for the visitor; another exception is a fault, and is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Any, Final, NamedTuple

_ROOM: Final = "headgate.tools.console.resources"


class AnswerKind(Enum):
    """The shape of a resource's answer."""

    ANSWER = "answer"
    EVENTS = "events"
    DOWNLOAD = "download"


class Download(NamedTuple):
    """A file for the visitor: its name, its media type, and its parts."""

    file_name: str
    media_type: str
    parts: Iterator[bytes]


class ConsoleResource(NamedTuple):
    """`target` is 'module:function', below `resources/`."""

    target: str
    kind: AnswerKind = AnswerKind.ANSWER

    def load(self) -> Callable[..., Any]:
        """The function; the first call imports its module."""
        module, _, function = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"{_ROOM}.{module}"), function)
        return found


RESOURCES: Final[dict[str, ConsoleResource]] = {
    "overview": ConsoleResource("cluster.overview:overview"),
    "live": ConsoleResource("cluster.live:live", AnswerKind.EVENTS),
    "brokers": ConsoleResource("cluster.brokers:brokers"),
    "broker_apis": ConsoleResource("cluster.broker:broker_apis"),
    "broker_configs": ConsoleResource("cluster.broker:broker_configs"),
    "topics": ConsoleResource("topics.topics:topics"),
    "topic_figures": ConsoleResource("topics.topics:topic_figures"),
    "topic": ConsoleResource("topics.topic:topic"),
    "topic_configs": ConsoleResource("topics.topic:topic_configs"),
    "topic_groups": ConsoleResource("topics.topic:topic_groups"),
    "topic_producers": ConsoleResource("topics.topic:topic_producers"),
    "topic_connections": ConsoleResource("topics.topic_connections:topic_connections"),
    "log_directories": ConsoleResource("topics.log_directories:log_directories"),
    "log_directory": ConsoleResource("topics.log_directories:log_directory"),
    "groups": ConsoleResource("groups.groups:groups"),
    "group_figures": ConsoleResource("groups.groups:group_figures"),
    "group": ConsoleResource("groups.group:group"),
    "lag_survey": ConsoleResource("groups.lag_survey:lag_survey"),
    "transactions": ConsoleResource("transactions:transactions"),
    "transaction_figures": ConsoleResource("transactions:transaction_figures"),
    "open_transactions": ConsoleResource("transactions:open_transactions"),
    "connections": ConsoleResource("clients:connections"),
    "members": ConsoleResource("clients:members"),
    "producers": ConsoleResource("clients:producers"),
    "acls": ConsoleResource("access:acls"),
    "access_decision": ConsoleResource("access:access_decision"),
    "users": ConsoleResource("access:users"),
    "quotas": ConsoleResource("access:quotas"),
    "tokens": ConsoleResource("access:tokens"),
    "features": ConsoleResource("features:features"),
    "message": ConsoleResource("messages:message"),
    "message_formats": ConsoleResource("messages:message_formats"),
    "message_part": ConsoleResource("messages:message_part", AnswerKind.DOWNLOAD),
    "messages": ConsoleResource("messages:messages", AnswerKind.EVENTS),
    "messages_export": ConsoleResource("messages:messages_export", AnswerKind.DOWNLOAD),
}
