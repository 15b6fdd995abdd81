"""The index of ACLs: finds the few that bear on a request among many. Immutable; a change shares the unchanged parts.

The ACLs of a resource are those of its name, of `*`, and of each prefix of the name: one look-up for each length that
prefixed patterns have. Below a pattern they lie by principal and host, so that 10,000 ACLs on one name cost a request
no more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from headgate.protocol.acls import WILDCARD, WILDCARD_PRINCIPAL, AclBinding, AclResource, PatternType
from headgate.protocol.security.acls.hosts import Network, address_text, network_of, networks_with

Bindings: TypeAlias = Mapping[AclBinding, None]
OfPattern: TypeAlias = Mapping[tuple[str, str], Bindings]
"""The ACLs of one pattern by principal and host."""
Patterns: TypeAlias = Mapping[tuple[AclResource, PatternType], Mapping[str, OfPattern]]
"""The ACLs by type, then by name."""


class AclIndex(NamedTuple):
    """All ACLs, by what a request asks for."""

    patterns: Patterns
    principals: Mapping[AclResource, OfPattern]
    """The ACLs of all patterns of a type, by principal and host."""
    hosts: Mapping[Network | str, Mapping[str, Bindings]]
    """The ACLs with another host than `*`, by network or else by text (`hosts.network_of`), then by text."""
    lengths: Mapping[AclResource, tuple[int, ...]]
    """The lengths of the names of prefixed patterns, the longest first."""

    @classmethod
    def empty(cls) -> AclIndex:
        """The index of no ACLs."""
        return cls({}, {}, {}, {})

    def changed(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> AclIndex:
        """The index without and with these ACLs. None of `added` may be present, all of `removed` have to be."""
        trees = [_Tree(root) for root in (self.patterns, self.principals, self.hosts)]
        for binding in removed:
            for tree, path in zip(trees, _paths(binding), strict=True):
                if path:
                    tree.remove(path)
        for binding in added:
            for tree, path in zip(trees, _paths(binding), strict=True):
                if path:
                    tree.add(path)
        patterns, principals, hosts = (tree.root for tree in trees)
        return AclIndex(patterns, principals, hosts, self._lengths(patterns))

    def _lengths(self, patterns: Patterns) -> Mapping[AclResource, tuple[int, ...]]:
        """The lengths of prefixed names in other patterns; those of unchanged types are kept."""
        return {
            resource: (
                self.lengths[resource]
                if names is self.patterns.get((resource, pattern_type))
                else tuple(sorted(set(map(len, names)), reverse=True))
            )
            for (resource, pattern_type), names in patterns.items()
            if pattern_type is PatternType.PREFIXED
        }

    def hosts_of(self, client_host: str) -> tuple[str, ...]:
        """The hosts of ACLs that mean a client's address."""
        found = [WILDCARD]
        if self.hosts:
            found += self.hosts.get(address_text(client_host), ())
            for network in networks_with(client_host):
                found += self.hosts.get(network, ())
        return tuple(found)

    def of_resource(self, resource: AclResource, name: str) -> list[OfPattern]:
        """The ACLs of every pattern that the resource has: the most specific first, `*` last."""
        found = []
        literal = self.patterns.get((resource, PatternType.LITERAL))
        if literal and name in literal:
            found.append(literal[name])
        lengths = self.lengths.get(resource)
        if lengths:
            prefixed = self.patterns[resource, PatternType.PREFIXED]
            prefixes = (name[:length] for length in lengths if length <= len(name))
            found += [prefixed[prefix] for prefix in prefixes if prefix in prefixed]
        if literal and WILDCARD in literal and name != WILDCARD:
            found.append(literal[WILDCARD])
        return found

    def of_type(self, resource: AclResource, principal: str, hosts: Iterable[str]) -> Iterator[AclBinding]:
        """The ACLs of all resources of a type that bear on a principal at these hosts."""
        rows = self.principals.get(resource)
        if rows:
            for key in keys(principal, hosts):
                yield from rows.get(key, ())


def keys(principal: str, hosts: Iterable[str]) -> list[tuple[str, str]]:
    """The keys of the ACLs that bear on a principal at these hosts."""
    principals = (principal, WILDCARD_PRINCIPAL) if principal != WILDCARD_PRINCIPAL else (principal,)
    return [(each, host) for each in principals for host in hosts]


def _paths(binding: AclBinding) -> tuple[tuple[Any, ...], ...]:
    """The places of a binding in the three mappings of an index; an empty one for none."""
    key = binding.principal, binding.host
    host = network_of(binding.host) or binding.host
    return (
        ((binding.resource_type, binding.pattern_type), binding.resource_name, key, binding),
        (binding.resource_type, key, binding),
        () if binding.host == WILDCARD else (host, binding.host, binding),
    )


class _Tree:
    """Nested mappings that a change copies where it touches them, each once. The last level has the keys of a set."""

    def __init__(self, root: Mapping[Any, Any]) -> None:
        self.root: dict[Any, Any] = dict(root)
        self._own: dict[int, dict[Any, Any]] = {}
        """The copies by id: held here, so that no other mapping gets the id of one."""

    def add(self, path: tuple[Any, ...]) -> None:
        node = self.root
        for key in path[:-1]:
            node = self._copied(node, key)
        node[path[-1]] = None

    def remove(self, path: tuple[Any, ...]) -> None:
        nodes = [self.root]
        for key in path[:-1]:
            nodes.append(self._copied(nodes[-1], key))
        for node, key in zip(reversed(nodes), reversed(path), strict=True):
            if not node.get(key):
                del node[key]

    def _copied(self, parent: dict[Any, Any], key: Any) -> dict[Any, Any]:
        child = parent.get(key)
        if child is None or id(child) not in self._own:
            child = parent[key] = dict(child or ())
            self._own[id(child)] = child
        return child
