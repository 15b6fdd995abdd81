"""The limit on open files: each connection and each segment in use takes a descriptor.

A shell often gives a process 1,024 descriptors, though the system would give many more, and operators notice when
clients hang. So the broker raises its limit to the maximum at the start, and warns if the maximum is too small.
"""

from __future__ import annotations

from headgate.storage.disk.pool import MAX_OPEN_SEGMENTS

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

# No broker needs more; some systems report a limit that they do not grant.
SUFFICIENT_DESCRIPTORS = 1 << 20
# Clients of even a small cluster need this many; Kafka's own documentation asks for 100,000 descriptors.
USUAL_CONNECTIONS = 1000
# For listeners, checkpoints, the metadata log, and files that are opened briefly.
RESERVED = 64
UNLIMITED_CONNECTIONS = 0x7FFF_FFFF


def raise_limit() -> int:
    """Raise this process's limit on open files as far as the system allows. Returns the new limit."""
    if resource is None:
        return SUFFICIENT_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SUFFICIENT_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, SUFFICIENT_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return SUFFICIENT_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox forbids the change; the present limit stays
        return soft
    return wanted


def max_connections_for(limit: int) -> int:
    """How many connections a limit allows, so that a storm of connections leaves descriptors for every log."""
    return max(1, limit - RESERVED - min(MAX_OPEN_SEGMENTS, limit // 2))


def low_limit_warning(limit: int, max_connections: int) -> str | None:
    """A warning if the limit does not allow all permitted connections beside the segments; None if it does."""
    wanted = _wanted_connections(max_connections)
    if max_connections_for(limit) >= wanted:
        return None
    return (
        f"this process may have {limit} files open, which leaves {max_connections_for(limit)} connections beside its"
        f" logs; raise the limit to {needed_for(max_connections)} for {wanted} connections (`ulimit -Hn`, or"
        " LimitNOFILE= of a systemd unit)"
    )


def needed_for(max_connections: int) -> int:
    """The limit that allows all permitted connections beside the segments."""
    least = _wanted_connections(max_connections) + RESERVED
    return least + min(MAX_OPEN_SEGMENTS, least)


def _wanted_connections(max_connections: int) -> int:
    return USUAL_CONNECTIONS if max_connections == UNLIMITED_CONNECTIONS else max_connections
