"""The authorizer over the ACLs of the cluster's metadata. Source: ClusterMetadataAuthorizer of Apache Kafka.

A decision is remembered per principal, host, operation and resource, until an ACL changes. The memory is bounded: it
has two generations, and a full one replaces the older. Without loaded ACLs all but super users are denied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, TypeAlias

from headgate.gateway.security.acls.acls_image import AclsImage
from headgate.protocol.acls import AclOperation, AclResource
from headgate.protocol.security.acls.decision import NOT_LOADED, SUPER_USER, AclDecision, AclPolicy, decide, decide_any
from headgate.protocol.security.acls.index import AclIndex

MAX_REMEMBERED = 1 << 14
"""Decisions of a generation: two of them, with names of a usual length, take ten megabytes."""
MAX_REMEMBERED_LENGTH = 300
"""A client chooses the name of its principal and of groups: the decision about a longer one is not remembered."""
MAX_HOSTS = 1 << 12


class Requester(Protocol):
    """The client that asks; `gateway.api.context.Client`."""

    @property
    def principal(self) -> str:
        """Type and name, as in "User:alice"."""

    @property
    def remote_host(self) -> str:
        """The address as text."""

    @property
    def listener(self) -> str:
        """The name of the listener that the client uses."""

    @property
    def client_id(self) -> str | None:
        """The name that the client gives itself."""


class Asked(NamedTuple):
    """A question; without a name, whether the principal may on any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource: AclResource
    name: str | None

    def __str__(self) -> str:
        name = "any" if self.name is None else repr(self.name)
        return f"{self.principal} from {self.host}, {self.operation.name} on {self.resource.name} {name}"


_Decisions: TypeAlias = dict[tuple[str, str, AclOperation, AclResource, str | None], AclDecision]


class ClusterMetadataAuthorizer:
    """Decides by the ACLs that `source` returns at the moment; None while they are not loaded."""

    reads_acls = True
    """CreateAcls and the like change what this authorizer decides by."""

    def __init__(self, source: Callable[[], AclsImage | None], policy: AclPolicy) -> None:
        self.policy = policy
        self._source = source
        self._acls: AclsImage | None = None
        self._young: _Decisions = {}
        self._old: _Decisions = {}
        self._hosts: dict[str, tuple[str, ...]] = {}

    def allows(self, client: Requester, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client may do the operation on this resource."""
        if self._source() is self._acls:  # as `decide`, without its calls: this is asked for each element of a request
            known = self._young.get((client.principal, client.remote_host, operation, resource, name))
            if known is not None:
                return known.is_allowed
        return self.decide(client.principal, client.remote_host, operation, resource, name).is_allowed

    def allows_any(self, client: Requester, operation: AclOperation, resource: AclResource) -> bool:
        """Whether the client may do the operation on at least one resource of the type."""
        return self.decide(client.principal, client.remote_host, operation, resource, None).is_allowed

    def viewpoint(self, client: Requester) -> Hashable:
        """All that decisions about a principal depend on beside the ACLs: the hosts of ACLs that mean the client."""
        self._follow()
        return self._hosts_of(client.remote_host)

    def decide(
        self, principal: str, host: str, operation: AclOperation, resource: AclResource, name: str | None
    ) -> AclDecision:
        """The decision, with the rule that decides. `name` None: about any resource of the type."""
        if self._source() is not self._acls:
            self._follow()
        key = principal, host, operation, resource, name
        decision = self._young.get(key)
        if decision is None:
            decision = self._old.get(key)
            if decision is None:
                decision = self._decide(*key)
            self._remember(key, decision)
        return decision

    def _follow(self) -> None:
        """Forget what other ACLs have decided."""
        acls = self._source()
        if acls is not self._acls:
            self._acls = acls
            self._young, self._old, self._hosts = {}, {}, {}

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource: AclResource, name: str | None
    ) -> AclDecision:
        if self._acls is None:
            return SUPER_USER if principal in self.policy.super_users else NOT_LOADED
        index, hosts = self._acls.acl_index, self._hosts_of(host)
        if name is None:
            return decide_any(index, self.policy, principal, hosts, operation, resource)
        return decide(index, self.policy, principal, hosts, operation, resource, name)

    def _remember(self, key: tuple[str, str, AclOperation, AclResource, str | None], decision: AclDecision) -> None:
        if len(key[0]) + len(key[4] or "") > MAX_REMEMBERED_LENGTH:
            return
        if len(self._young) >= MAX_REMEMBERED:
            self._old, self._young = self._young, {}
        self._young[key] = decision

    def _hosts_of(self, host: str) -> tuple[str, ...]:
        """The hosts of ACLs that mean this address."""
        hosts = self._hosts.get(host)
        if hosts is None:
            if len(self._hosts) >= MAX_HOSTS:
                self._hosts.clear()
            index = AclIndex.empty() if self._acls is None else self._acls.acl_index
            hosts = self._hosts[host] = index.hosts_of(host)
        return hosts
