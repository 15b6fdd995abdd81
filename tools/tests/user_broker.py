"""A broker with users as plain values, behind the interface of a cluster's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headgate.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headgate.protocol.schema import Message
from headgate.protocol.security.sasl.scram_keys import ScramMechanism

SHA_256, SHA_512 = ScramMechanism


class UserBroker:
    """Stands for the cluster and for the client of its controller. `error`: the answer to every change."""

    def __init__(self) -> None:
        self.users = {"alice": {int(SHA_512): 4096}, "bob": {int(SHA_256): 8192, int(SHA_512): 4096}}
        self.error = ErrorCode.NONE
        self.changes: list[AlterUserScramCredentialsRequest] = []

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask_any(self, key: str, ask: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    ask_controller = ask_any

    def ask(self, request: Any) -> Message:
        if isinstance(request, DescribeUserScramCredentialsRequest):
            names = [user.name for user in request.users] if request.users else [*self.users]
            return DescribeUserScramCredentialsResponse(results=[self._describe(name) for name in names])
        assert isinstance(request, AlterUserScramCredentialsRequest)
        self.changes.append(request)
        names = [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)]
        assert len(names) == 1, "a request may name a user once"
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, self.error, None) for name in names]
        )

    def _describe(self, name: str) -> DescribeUserScramCredentialsResult:
        if name not in self.users:
            return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, None, [])
        infos = [CredentialInfo(*item) for item in self.users[name].items()]
        return DescribeUserScramCredentialsResult(name, 0, None, infos)
