"""Responses as lines by which brokers can be compared: fields that are not their defaults, and nothing accidental."""

from __future__ import annotations

from typing import Any, ClassVar

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopicConfigs
from headgate.protocol.schema import Message, Struct, fields_in
from headgate.protocol.wire import ZERO_UUID

HIDDEN = frozenset(("throttle_time_ms", "host", "port", "log_dir", "broker_epoch", "error_message", "is_default"))
"""What is another's on every broker, and nobody's rule; and `is_default`, which Kafka never sets."""
MADE = frozenset(("cluster_id", "documentation", "total_bytes", "usable_bytes"))
"""What each words or counts for itself: that there is something is all that is compared."""
CONFIGS = ("cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "index.interval.bytes")
"""Of the settings of a new topic, these: others differ on purpose, or there are none of them here."""


class ResponseLines:
    """Knows topics by their ids."""

    hidden: ClassVar[frozenset[str]] = HIDDEN

    def __init__(self) -> None:
        self.ids: dict[bytes, str] = {}

    def line(self, response: Message, version: int, *, ordered: bool = False) -> str:
        """The response of a version; what lists in it stand for has no order, unless `ordered`."""
        return self._struct(response, version, ordered)

    def _struct(self, value: Struct, version: int, ordered: bool) -> str:
        fields = [
            f"{field.name}={self._field(field.name, getattr(value, field.name), version, ordered)}"
            for field in fields_in(type(value), version)
            if field.name not in self.hidden and getattr(value, field.name) != field.default()
        ]
        return f"({' '.join(fields)})"

    def _field(self, name: str, value: Any, version: int, ordered: bool) -> str:
        if name in MADE:
            return "made" if value not in (None, "", -1) else repr(value)
        if name.endswith("error_code"):
            return ErrorCode(value).name
        if isinstance(value, bytes):
            return self.ids.get(value, "zero" if value == ZERO_UUID else "unknown")
        return self._value(value, version, ordered or name == "synonyms")

    def _value(self, value: Any, version: int, ordered: bool) -> str:
        if isinstance(value, Struct):
            return self._struct(value, version, ordered)
        if isinstance(value, list):
            shown = [each for each in value if not isinstance(each, CreatableTopicConfigs) or each.name in CONFIGS]
            rows = [self._value(each, version, ordered) for each in shown]
            return f"[{' '.join(rows if ordered else sorted(rows))}]"
        return repr(value)
