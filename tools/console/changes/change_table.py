"""The table of changes: `POST /api/changes/NAME/plan` and `/apply` run the function behind the name.

To add one: write a function of `(Cluster, Parameters)` in a module beside this one, which returns a `ChangePlan`, and a
line in CHANGES. The function only reads; it runs in a thread with the visitor's own login, and may block.
`ClientError`, `UsageError` and `BadParameter` are sentences for the visitor.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple

from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.plan import ChangePlan
from headgate.tools.console.parameters import Parameters

MakePlan = Callable[[Cluster, Parameters], ChangePlan]
_ROOM: Final = "headgate.tools.console.changes"


class ConsoleChange(NamedTuple):
    """`target` is 'module:function' of this room."""

    target: str

    def load(self) -> MakePlan:
        """The function; the first call imports its module."""
        module, _, function = self.target.partition(":")
        found: MakePlan = getattr(import_module(f"{_ROOM}.{module}"), function)
        return found


CHANGES: Final[dict[str, ConsoleChange]] = {
    "abort_transaction": ConsoleChange("abort_transaction:abort_transaction"),
    "add_partitions": ConsoleChange("add_partitions:add_partitions"),
    "alter_configs": ConsoleChange("alter_configs:alter_configs"),
    "create_topic": ConsoleChange("create_topic:create_topic"),
    "delete_groups": ConsoleChange("groups:delete_groups"),
    "delete_offsets": ConsoleChange("groups:delete_offsets"),
    "delete_records": ConsoleChange("delete_records:delete_records"),
    "delete_topics": ConsoleChange("delete_topics:delete_topics"),
    "produce": ConsoleChange("producing.produce:produce"),
    "add_acls": ConsoleChange("acls:add_acls"),
    "delete_acls": ConsoleChange("acls:delete_acls"),
    "set_user": ConsoleChange("users:set_user"),
    "delete_user": ConsoleChange("users:delete_user"),
    "set_quotas": ConsoleChange("quotas:set_quotas"),
    "delete_quotas": ConsoleChange("quotas:delete_quotas"),
    "reset_offsets": ConsoleChange("offsets:reset_offsets"),
}
