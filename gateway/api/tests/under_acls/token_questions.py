"""Questions about delegation tokens (KIP-48, KIP-373). `set_up` makes one of bob, of whom ACLs are.

Who may renew or expire a token says the token, and no ACL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headgate.gateway.api.tests.under_acls.questions import Question, question
from headgate.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from headgate.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from headgate.protocol.schema import Message

DAY_MS = 86_400_000


def set_up(admin: Callable[[Message, int], Any]) -> None:
    """A token of bob, whom ACLs name, and one of eve."""
    for owner in ("bob", "eve"):
        created = admin(CreateDelegationTokenRequest("User", owner, [], DAY_MS), 3)
        assert created is None or not created.error_code, created


def token_questions() -> Iterator[Question]:
    yield question("all", DescribeDelegationTokenRequest(None))
    for owner in ("bob", "eve", "nobody"):
        yield question(f"of {owner}", DescribeDelegationTokenRequest([DescribeDelegationTokenOwner("User", owner)]))
    yield question("none of this secret", RenewDelegationTokenRequest(b"no such secret", DAY_MS))
    yield question("none of this secret", ExpireDelegationTokenRequest(b"no such secret", DAY_MS))
    for owner in ("bob", "eve"):
        yield question(f"of {owner}", CreateDelegationTokenRequest("User", owner, [], DAY_MS), [3])
    yield question("of the client", CreateDelegationTokenRequest(None, None, [], DAY_MS))
