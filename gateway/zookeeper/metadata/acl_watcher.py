"""The ACLs in ZooKeeper, as every broker with an authorizer reads them: all at a start, single patterns later.

Changes are found by the notifications that each writer adds; every broker deletes them after 15 minutes. An unreadable
node keeps its known ACLs while the broker runs, and stops a start: it might deny something.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headgate.gateway.config.broker import PYTHON_PREFIX
from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.security.acls.acls_image import AclsDraft, acl_id_of, record_of
from headgate.gateway.zookeeper.layout.acls import (
    CHANGES_PATHS,
    TYPE_PATHS,
    AclChange,
    acl_path,
    pattern_of,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tree import ClusterTree, read_cluster
from headgate.gateway.zookeeper.metadata.notifications import Notifications
from headgate.gateway.zookeeper.metadata.reading import NodesByPath, StoreParts, read_many, read_node
from headgate.gateway.zookeeper.requests import children, ensure
from headgate.gateway.zookeeper.session import Session, Watch
from headgate.protocol.acls import AclBinding, ResourcePattern
from headgate.protocol.internal.metadata import MetadataRecord, RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

ACL_DIRECTORIES: Final = (*CHANGES_PATHS, *TYPE_PATHS)


def reads_acls(config: BrokerConfig) -> bool:
    """Whether a broker decides by the ACLs of the cluster."""
    return bool(config.authorizer_class_name) and not config.authorizer_class_name.startswith(PYTHON_PREFIX)


def ensure_acl_paths(session: Session) -> Task[None]:
    """Create the directories of ACLs, as Kafka's authorizer does. Raises Failed."""
    for path in ACL_DIRECTORIES:
        yield from ensure(session, path)


def read_acls(session: Session, watch: Watch | None) -> Task[NodesByPath]:
    """The nodes of all ACLs. The watch is on the notifications: a later change fires it. Raises Failed."""
    for path in CHANGES_PATHS:
        yield from children(session, path, watch)
    names = yield from gather([children(session, path) for path in TYPE_PATHS])
    paths = [f"{path}/{name}" for path, found in zip(TYPE_PATHS, names, strict=True) for name in found]
    return (yield from read_many(session, paths)) if paths else {}


def has_acls(session: Session) -> Task[bool]:
    """Whether the cluster has any ACL: then its brokers have an authorizer. Raises Failed."""
    paths = yield from gather([children(session, path) for path in TYPE_PATHS])
    return any(paths)


def unreadable_acls(cluster: ClusterTree) -> InvalidNode | None:
    """The first unreadable node with ACLs."""
    return next((error for error in cluster.invalid if pattern_of(error.path) is not None), None)


class AclWatcher:
    """Reads changed ACLs. `records`: differences that are not published yet."""

    def __init__(self, parts: StoreParts) -> None:
        self.records: list[MetadataRecord] = []
        self.directories: tuple[str, ...] = ACL_DIRECTORIES if reads_acls(parts.config) else ()
        """The paths to read after all watches were lost; none without an authorizer."""
        self._session = parts.session
        self._nodes = parts.nodes
        self._store = parts.store
        self.notifications = Notifications(parts)

    def take_records(self) -> list[MetadataRecord]:
        """Take the differences since the last call."""
        records, self.records = self.records, []
        return records

    def changed_below(self, path: str) -> Task[Iterable[str]]:
        """The paths of nodes with ACLs that may have changed: those with a new notification, or all of a type."""
        if path in CHANGES_PATHS:
            return acl_paths((yield from self.notifications.read(path, _changed_pattern)))
        names = yield from children(self._session, path)
        known = (binding.pattern for binding in self._store.written_image.acls.ids)
        gone = {each for each in acl_paths(known) if each.startswith(f"{path}/")}
        return gone.union(f"{path}/{name}" for name in names)

    def refresh(self, path: str) -> Task[None]:
        """Read the node of a pattern, and note how it differs from the image."""
        pattern = pattern_of(path)
        found = None if pattern is None else (yield from self._read(pattern))
        if pattern is not None and found is not None:
            known = _of_pattern(self._store.written_image, pattern)
            self.records += [RemoveAccessControlEntryRecord(known[each]) for each in known if each not in found]
            self.records += [record_of(each, acl_id_of(each)) for each in found if each not in known]

    def read_into(self, image: Image, pattern: ResourcePattern) -> Task[Image]:
        """The image with the present ACLs of a pattern; an unreadable node keeps its known ACLs."""
        found = yield from self._read(pattern)
        if found is None:
            return image
        draft, known = AclsDraft(image.acls), _of_pattern(image, pattern)
        for binding, acl_id in known.items():
            if binding not in found:
                draft.remove(acl_id)
        for binding in found:
            draft.add(acl_id_of(binding), binding)
        return image._replace(acls=draft.finish())

    def _read(self, pattern: ResourcePattern) -> Task[tuple[AclBinding, ...] | None]:
        """The present ACLs of a pattern; None if their node cannot be read."""
        tree = yield from read_node(self._session, acl_path(pattern))
        part = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, part.invalid)
        if part.invalid:
            return None
        self._nodes.put_acls(pattern, part)
        return part.acls[pattern].node.bindings if pattern in part.acls else ()


def _changed_pattern(path: str, data: bytes | None) -> ResourcePattern:
    return AclChange.decode(path, data).pattern


def _of_pattern(image: Image, pattern: ResourcePattern) -> dict[AclBinding, bytes]:
    """The ACLs of a pattern with their ids."""
    names = image.acls.acl_index.patterns.get((pattern.resource_type, pattern.pattern_type), {})
    return {binding: image.acls.ids[binding] for rows in names.get(pattern.name, {}).values() for binding in rows}


def acl_paths(patterns: Iterable[ResourcePattern]) -> list[str]:
    """The paths of the patterns whose names ZooKeeper can have, each once."""
    paths = dict[str, None]()
    for pattern in dict.fromkeys(patterns):
        with suppress(InvalidNode):
            paths[acl_path(pattern)] = None
    return [*paths]
