"""The seam to ZooKeeper: a session as functions and callbacks, its events and errors as values.

`client.py` has the real session, `tests/model.py` a model of it; `tests/test_scenarios.py` holds both to this page.

Every request takes `done`, which gets the result or a `KeeperError`: exactly once, on the loop, never before the call
returns. Requests take effect, and are answered, in the order of the calls. Any number may wait, but to ask costs some
microseconds each: ask for thousands in slices.

A watch is a function of the path: it is called at most once, at the first change
after the read that set it, own changes included. Nothing orders events and answers: an event only means "look again".
Watches end silently with the connection: after CONNECTED and RECONNECTED, look again at everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

ANY_VERSION: Final = -1
MAX_REQUEST_BYTES: Final = 1_000_000
"""ZooKeeper closes the connection for more (jute.maxbuffer: 1,048,575 bytes with its own fields)."""
OVERHEAD_BYTES: Final = 128
"""An upper bound on the other fields of one operation."""
# Characters beyond 16 bits are none to ZooKeeper
_NAME: Final = r"/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+"
_is_path: Final = re.compile(f"/|(?:{_NAME})+").fullmatch


class KeeperError(Enum):
    """Why a request failed. Only CONNECTION_LOSS leaves open whether the request took effect; the others say: no."""

    NO_NODE = auto()
    NODE_EXISTS = auto()
    BAD_VERSION = auto()
    NOT_EMPTY = auto()
    NO_CHILDREN_FOR_EPHEMERALS = auto()
    BAD_ARGUMENTS = auto()
    """A path that ZooKeeper does not allow."""
    TOO_LARGE = auto()
    """More than MAX_REQUEST_BYTES; the request was not sent."""
    NO_AUTH = auto()
    NOT_CONNECTED = auto()
    """There was no connection, or it ended before the request was sent."""
    CONNECTION_LOSS = auto()
    """The connection ended before the answer. The request is never sent again by itself, but may have taken effect, or
    take effect until the session is connected again; then a look at the node tells."""
    SESSION_EXPIRED = auto()
    UNIMPLEMENTED = auto()
    """The server is too old for the request."""
    OTHER = auto()
    """Any other error of the server; the log has it."""


OF_NODES: Final = frozenset((KeeperError.NO_NODE, KeeperError.NO_AUTH))
"""The errors of single nodes in the answer to `get_many`."""
READ_AT_ONCE: Final = 64
"""The most nodes of one `get_many`: data are at most a megabyte each, and small where many nodes are read."""


class SessionEvent(Enum):
    """What happened to the session. A session begins with CONNECTED and ends with EXPIRED, or by `close`."""

    CONNECTED = auto()
    """A new session: it has no ephemeral nodes and no watches."""
    SUSPENDED = auto()
    """The connection is lost; the session may live on. All requests were answered before this event."""
    OUTDATED = auto()
    """While suspended: each server has fewer transactions than the session has seen, and refuses the session.

    ZooKeeper came back empty or from an older copy. The event comes once; RECONNECTED or EXPIRED may still follow."""
    RECONNECTED = auto()
    """The same session has a connection again: its ephemeral nodes are there, its watches are not."""
    EXPIRED = auto()
    """ZooKeeper has ended the session, and deleted its ephemeral nodes. CONNECTED follows, with another id."""


class Stat(NamedTuple):
    """What ZooKeeper knows of a node. A zxid is the number of a transaction; `ephemeral_owner` is 0 for others."""

    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    children_version: int
    children: int


class NodeData(NamedTuple):
    """The answer to `get`. Nodes without data (null) differ from those with empty data: Kafka writes both."""

    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    """The answer to `children`: names without the path, sorted."""

    names: tuple[str, ...]
    stat: Stat


class Create(NamedTuple):
    """Create a node; the result is its path. To a sequential one ZooKeeper appends ten digits that rise."""

    path: str
    data: bytes | None = None
    is_ephemeral: bool = False
    is_sequential: bool = False


class SetData(NamedTuple):
    """Replace the data of a node; the result is its new Stat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children; the result is None."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Refuse the multi unless the node has this version; the result is None. ANY_VERSION: unless it exists."""

    path: str
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check


class Refused(NamedTuple):
    """A multi that took no effect, because of the operation at this place, from 0."""

    place: int
    error: KeeperError


Done = Callable[[T | KeeperError], None]
Watch = Callable[[str], None]
Results = tuple[str | Stat | None, ...]


class Session(Protocol):
    """A session with ZooKeeper. Paths begin with a slash and are relative to the chroot.

    After CONNECTION_LOSS the caller may ask again once the session is connected, with these cautions:

    - `get`, `children`, `exists`, `sync`: always.
    - `set` and `delete` with a version: BAD_VERSION or NO_NODE may then come from the first attempt; the node's data
      say. Without a version, the second attempt may undo what another client did in between.
    - `create`: NODE_EXISTS may come from the first attempt; the data say, or the owner of an ephemeral node.
    - `create` of a sequential node: only after a look at the children; otherwise there may be two.
    - `multi`: look first at a node that it would have changed.
    """

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral nodes; 0 without a session."""

    @property
    def is_connected(self) -> bool:
        """Whether requests are sent; otherwise they are answered NOT_CONNECTED."""

    def start(self) -> None:
        """Connect, for as long as it takes; events tell of it."""

    def unresolved_hosts(self) -> Sequence[str]:
        """The names of servers for which no address is known. Asks the resolver, and waits for it."""

    def get(self, path: str, done: Done[NodeData], watch: Watch | None = None) -> None:
        """Read a node. `watch`: its data change, or it is deleted; it is not set if the node does not exist."""

    def get_many(self, paths: Sequence[str], done: Done[Sequence[NodeData | KeeperError]]) -> None:
        """Read at most READ_AT_ONCE nodes in one request, as of one moment. Answers in the order of the paths.

        A node that is not there, or must not be read, has an error of its own (OF_NODES). Costs about as much as four
        single reads. Without watches. Servers before 3.6 read one by one, at several moments.
        """

    def watch_many(self, paths: Sequence[str], zxid: int, watch: Watch, done: Done[None]) -> None:
        """Set data watches in one request on at most READ_AT_ONCE nodes that were read when `zxid` was the latest.

        A node that was changed or deleted since, or whose change the server saw after `zxid`, is told at once. So the
        highest `mzxid` of what was read will do.
        """

    def children(self, path: str, done: Done[Children], watch: Watch | None = None) -> None:
        """List a node. `watch`: a child is created or deleted, or the node is; not set if the node does not exist."""

    def exists(self, path: str, done: Done[Stat], watch: Watch | None = None) -> None:
        """Look for a node: NO_NODE if it does not exist. `watch`: as with `get`, or the node is created."""

    def create(self, node: Create, done: Done[str]) -> None:
        """Create a node; its parent must exist."""

    def set(self, path: str, data: bytes | None, version: int, done: Done[Stat]) -> None:
        """Replace the data of a node that has this version."""

    def delete(self, path: str, version: int, done: Done[None]) -> None:
        """Delete a node that has this version, and no children."""

    def multi(self, operations: Sequence[Operation], done: Done[Results | Refused]) -> None:
        """Do all of it as one transaction, or nothing."""

    def sync(self, path: str, done: Done[None]) -> None:
        """Have later reads see all that was written anywhere before: the server that answers may lag behind."""

    def close(self, done: Callable[[bool], None]) -> None:
        """End the session. `done` is the last call: with True if ZooKeeper has ended it, ephemeral nodes included.

        With False ZooKeeper keeps them until the session times out. Requests that were not sent are NOT_CONNECTED, and
        no event is told any more.
        """


def is_valid_path(path: str) -> bool:
    """Whether ZooKeeper allows a path (`PathUtils.validatePath`)."""
    return _is_path(path) is not None


def is_too_large(path: str, data: bytes | None) -> bool:
    """Whether ZooKeeper would close the connection for a node."""
    return _size(path, data) > MAX_REQUEST_BYTES


def refusal(operations: Sequence[Operation]) -> KeeperError | Refused | None:
    """The error of a multi that is not worth sending; None if ZooKeeper decides."""
    for place, operation in enumerate(operations):
        if not is_valid_path(operation.path):
            return Refused(place, KeeperError.BAD_ARGUMENTS)
    size = sum(
        _size(operation.path, operation.data if isinstance(operation, Create | SetData) else None)
        for operation in operations
    )
    return KeeperError.TOO_LARGE if size > MAX_REQUEST_BYTES else None


def _size(path: str, data: bytes | None) -> int:
    return len(path.encode()) + len(data or b"") + OVERHEAD_BYTES
