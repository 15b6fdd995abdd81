"""How many files a broker may have open. Every connection is one, and every segment that is in use.

A shell gives a process 1,024 where the system would give it many times that, and brokers find out when clients hang:
so the broker takes what it may have, and says at its start where that is too little.
"""

from __future__ import annotations

from headgate.storage.disk.pool import MAX_OPEN_SEGMENTS

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

# No broker needs more; some systems name a limit that they then do not grant.
ENOUGH = 1 << 20
# What even a small cluster's clients come to; Kafka's own documentation asks for 100,000 descriptors.
ENOUGH_CONNECTIONS = 1000
# For listeners, checkpoints, the metadata log, whatever else is opened for a moment.
RESERVED = 64
UNLIMITED_CONNECTIONS = 0x7FFF_FFFF


def raise_limit() -> int:
    """Let this process open as many files as the system allows it to; how many these are."""
    if resource is None:
        return ENOUGH
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ENOUGH if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox keeps it from us: what we have must do
        return soft
    return wanted


def for_connections(limit: int) -> int:
    """How many connections there may be at a limit, so that a storm of them leaves descriptors for every log."""
    return max(1, limit - RESERVED - min(MAX_OPEN_SEGMENTS, limit // 2))


def complaint(limit: int, max_connections: int) -> str | None:
    """What there is to be said of a limit: nothing, if all connections that are allowed can be had beside segments."""
    wanted = ENOUGH_CONNECTIONS if max_connections == UNLIMITED_CONNECTIONS else max_connections
    if for_connections(limit) >= wanted:
        return None
    needed = wanted + RESERVED + min(MAX_OPEN_SEGMENTS, wanted + RESERVED)
    return (
        f"this process may have {limit} files open, and so {for_connections(limit)} connections beside its logs; raise"
        f" its limit to {needed} for {wanted} of them (`ulimit -Hn`, or LimitNOFILE= of a systemd unit)"
    )
