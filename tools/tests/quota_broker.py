"""A broker with quotas as plain values, behind the interface of a cluster's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from headgate.protocol.messages.describe_client_quotas import (
    DEFAULT,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from headgate.protocol.schema import Message

Key = tuple[tuple[str, str | None], ...]


class QuotaBroker:
    """Stands for the cluster and for the client of its one broker. `error`: the answer to every request."""

    def __init__(self) -> None:
        self.quotas: dict[Key, dict[str, float]] = {}
        self.error = ErrorCode.NONE
        self.changes: list[AlterClientQuotasRequest] = []

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask_any(self, key: str, ask: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    def ask(self, request: Any) -> Message:
        if isinstance(request, DescribeClientQuotasRequest):
            if self.error:
                return DescribeClientQuotasResponse(error_code=self.error, entries=None)
            return DescribeClientQuotasResponse(entries=self._find(request))
        assert isinstance(request, AlterClientQuotasRequest)
        self.changes.append(request)
        for entry in request.entries:
            values = self.quotas.setdefault(tuple((part.entity_type, part.entity_name) for part in entry.entity), {})
            for op in () if request.validate_only or self.error else entry.ops:
                values.pop(op.key, None)
                if not op.remove:
                    values[op.key] = op.value
        return AlterClientQuotasResponse(
            entries=[AlteredEntryData(self.error, None, entry.entity) for entry in request.entries]
        )

    def _find(self, request: DescribeClientQuotasRequest) -> list[EntryData]:
        wanted = {(part.entity_type, None if part.match_type == DEFAULT else part.match) for part in request.components}
        return [
            EntryData([EntityData(*name) for name in names], [ValueData(*item) for item in values.items()])
            for names, values in self.quotas.items()
            if wanted <= set(names) and (not request.strict or len(wanted) == len(names))
        ]
