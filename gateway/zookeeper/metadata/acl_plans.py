"""Plans that write ACLs: from the known nodes and the wanted image to operations. Pure. Any broker may write ACLs.

Each pattern with other ACLs gets its node written, on condition of the version that the plan has read, and a
notification. Source: AclAuthorizer of Kafka 3.9, which writes them one after the other; here they are one multi.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gateway.metadata.image import Image
from headgate.gateway.zookeeper.layout.acls import AclChange, AclNode, acl_path, by_pattern
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.session import Create, Delete, Operation, SetData

_NO_ACLS = AclNode(())


def change_acls(cluster: ClusterTree, new: Image) -> Iterator[Operation]:
    """The writes of the patterns whose ACLs differ. Raises InvalidNode for a name that ZooKeeper cannot have."""
    before, after = cluster.image.acls.ids, new.acls.ids
    if new.acls is cluster.image.acls:
        return
    changed = [binding for binding in before if binding not in after]
    changed += [binding for binding in after if binding not in before]
    for pattern, bindings in by_pattern(changed).items():
        stored = cluster.acls.get(pattern)
        node = _NO_ACLS if stored is None else stored.node
        kept = [binding for binding in node.bindings if binding not in before or binding in after]
        wanted = dict.fromkeys((*kept, *(binding for binding in bindings if binding in after)))
        changed_node = node._replace(bindings=(*wanted,))
        path = acl_path(pattern)
        if changed_node == node:
            continue
        if stored is None:
            yield Create(path, changed_node.encode())
        elif changed_node == _NO_ACLS:
            yield Delete(path, stored.version)
        else:
            yield SetData(path, changed_node.encode(), stored.version)
        change = AclChange(pattern)
        yield Create(change.path(), change.encode(), is_sequential=True)
