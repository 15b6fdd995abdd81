"""The authorizer of `headgate.authorizer.mode=observe`: refuses nothing, and counts what the ACLs would refuse.

So an administrator finds the missing ACLs before they stop a client. Each would-be refusal is remembered and logged
once, with the rule that decides; the memory is bounded.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from headgate.gateway.security.acls.authorizer import Asked, Requester
from headgate.protocol.acls import AclOperation, AclResource

logger = logging.getLogger("headgate.authorizer")

MAX_OBSERVED = 10_000
MAX_NAME_LENGTH = 300


class _Authorizer(Protocol):
    """The authorizer that would decide; `gateway.api.authorization.Authorizer`."""

    def allows(self, client: Any, operation: AclOperation, resource: AclResource, name: str, /) -> bool:
        """Whether the client may do the operation on this resource."""

    def allows_any(self, client: Any, operation: AclOperation, resource: AclResource, /) -> bool:
        """Whether the client may do the operation on at least one resource of the type."""


class ObservingAuthorizer:
    """Asks another authorizer, and allows everything."""

    allows_all = True
    """Nothing is refused: a list of authorized operations needs no question."""

    def __init__(self, enforcing: _Authorizer, report: Callable[[Requester, Asked], None] = lambda *_: None) -> None:
        """`report`: called with the first of equal would-be refusals."""
        self.enforcing = enforcing
        self._report = report
        self.observed: Counter[Asked] = Counter()
        """The would-be refusals, each with its number: the first MAX_OBSERVED different ones."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """The number of all would-be refusals, by the names of operation and resource type."""

    @property
    def reads_acls(self) -> bool:
        """Whether the other authorizer decides by the ACLs of the metadata."""
        return getattr(self.enforcing, "reads_acls", False)

    def allows(self, client: Requester, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """True. A refusal is noted."""
        if not self.enforcing.allows(client, operation, resource, name):
            self._note(client, Asked(client.principal, client.remote_host, operation, resource, name))
        return True

    def allows_any(self, client: Requester, operation: AclOperation, resource: AclResource) -> bool:
        """True. A refusal is noted."""
        if not self.enforcing.allows_any(client, operation, resource):
            self._note(client, Asked(client.principal, client.remote_host, operation, resource, None))
        return True

    def _note(self, client: Requester, asked: Asked) -> None:
        self.counts[asked.operation.name, asked.resource.name] += 1
        if asked in self.observed:
            self.observed[asked] += 1
        elif len(self.observed) < MAX_OBSERVED and len(asked.principal) + len(asked.name or "") <= MAX_NAME_LENGTH:
            self.observed[asked] = 1
            logger.info("observe: %s: %s", asked, self._rule(asked))
            self._report(client, asked)
            if len(self.observed) == MAX_OBSERVED:
                logger.warning(
                    "observe: %d different refusals are known, and no further ones are reported; the metric"
                    " headgate_authorizer_observed_refusals_total counts them; a restart begins again",
                    MAX_OBSERVED,
                )

    def _rule(self, asked: Asked) -> str:
        decide = getattr(self.enforcing, "decide", None)
        return "would be denied" if decide is None else f"would be {decide(*asked)}"

    def count_refusals(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The values of a metric with the labels operation and resource."""
        return iter([*self.counts.items()])
