"""The seam to ZooKeeper: a session as functions and callbacks, its events and errors as values.

`client.py` has the real session, `tests/model.py` a model of it; `tests/test_scenarios.py` holds both to this text.

Every request takes `resume`, which gets the result or a `KeeperError`: exactly once, on the loop, never before the call
returns. Requests take effect, and are answered, in the order of the calls. Any number may wait, but a call costs some
microseconds: send thousands of requests in slices.

A watch is a function of the path: it is called at most once, at the first change after the read that set it, own
changes included. Events and answers have no common order: an event only means "read again". Watches end silently with
the connection: after CONNECTED and RECONNECTED, read everything again.
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
    """Why a request failed. After CONNECTION_LOSS it may have taken effect; after any other error it has not."""

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
    """The connection ended before the answer. The session never repeats the request, which may have taken effect, or
    may take effect until the session is connected again; then the node shows the outcome."""
    SESSION_EXPIRED = auto()
    UNIMPLEMENTED = auto()
    """The server is too old for the request."""
    OTHER = auto()
    """Any other error of the server; it is in the log."""


OF_NODES: Final = frozenset((KeeperError.NO_NODE, KeeperError.NO_AUTH))
"""The errors of single nodes in the answer to `get_many`."""
READ_AT_ONCE: Final = 64
"""The most nodes of one `get_many`: data are at most a megabyte each, and small where many nodes are read."""


class SessionEvent(Enum):
    """An event of the session. A session begins with CONNECTED and ends with EXPIRED, or by `close`."""

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
    """The attributes of a node. A zxid is the number of a transaction; `ephemeral_owner` is 0 for a persistent node."""

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
    """A multi without effect. `place`: the index of the refused operation."""

    place: int
    error: KeeperError


Resume = Callable[[T | KeeperError], None]
Watch = Callable[[str], None]
Results = tuple[str | Stat | None, ...]


class Session(Protocol):
    """A session with ZooKeeper. Paths begin with a slash and are relative to the chroot.

    After CONNECTION_LOSS the caller may ask again once the session is connected, with these cautions:

    - `get`, `children`, `exists`, `sync`: no caution.
    - `set` and `delete` with a version: BAD_VERSION or NO_NODE may be the effect of the first attempt; compare the
      node's data. Without a version, the second attempt may undo what another client did in between.
    - `create`: NODE_EXISTS may be the effect of the first attempt; compare the data, or the ephemeral owner.
    - `create` of a sequential node: list the children first; otherwise there may be two.
    - `multi`: first read a node that it would have changed.
    """

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral nodes; 0 without a session."""

    @property
    def problem(self) -> str | None:
        """Why the last attempt to connect has failed, if settings may be the cause; None with a connection."""

    @property
    def is_connected(self) -> bool:
        """Whether requests are sent; otherwise they are answered NOT_CONNECTED."""

    def start(self) -> None:
        """Begin to connect, without a time limit; events report the connection."""

    def unresolved_hosts(self) -> Sequence[str]:
        """The names of servers without a known address. Blocks for the resolver."""

    def get(self, path: str, resume: Resume[NodeData], watch: Watch | None = None) -> None:
        """Read a node. `watch` fires if the data change, or the node is deleted; not set if the node does not exist."""

    def get_many(self, paths: Sequence[str], resume: Resume[Sequence[NodeData | KeeperError]]) -> None:
        """Read at most READ_AT_ONCE nodes in one request, as of one moment. Answers in the order of the paths.

        A node that is not there, or must not be read, has an error of its own (OF_NODES). Costs about as much as four
        single reads. Without watches. Servers before 3.6 read one by one, at several moments.
        """

    def watch_many(self, paths: Sequence[str], zxid: int, watch: Watch, resume: Resume[None]) -> None:
        """Set data watches in one request on at most READ_AT_ONCE nodes that were read when `zxid` was the latest.

        The watch of a node that was changed or deleted after `zxid` fires at once. So the highest `mzxid` of the nodes
        that were read is a valid `zxid`.
        """

    def children(self, path: str, resume: Resume[Children], watch: Watch | None = None) -> None:
        """List a node. `watch` fires if a child is created or deleted, or the node is deleted; not set without it."""

    def exists(self, path: str, resume: Resume[Stat], watch: Watch | None = None) -> None:
        """Get the Stat of a node, or NO_NODE. `watch` fires as with `get`, or if the node is created."""

    def create(self, node: Create, resume: Resume[str]) -> None:
        """Create a node; its parent must exist."""

    def set(self, path: str, data: bytes | None, version: int, resume: Resume[Stat]) -> None:
        """Replace the data of a node that has this version."""

    def delete(self, path: str, version: int, resume: Resume[None]) -> None:
        """Delete a node that has this version, and no children."""

    def multi(self, operations: Sequence[Operation], resume: Resume[Results | Refused]) -> None:
        """Apply all operations as one transaction, or none."""

    def sync(self, path: str, resume: Resume[None]) -> None:
        """Let later reads see all earlier writes of all clients: the connected server may lag behind."""

    def follow_loop(self) -> None:
        """Send heartbeats from now on only while the loop runs: the session ends soon after the loop stands still."""

    def close(self, resume: Callable[[bool], None]) -> None:
        """End the session. `resume` is called last: with True if ZooKeeper has ended it, ephemeral nodes included.

        With False ZooKeeper keeps them until the session times out. Unsent requests are answered NOT_CONNECTED, and
        no further event is reported.
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
