"""The state of a broker in one line, for the service manager: `systemctl status` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.app.composition import BrokerParts
    from headgate.gateway.app.serving_state import ServingState
    from headgate.gateway.maintenance.log_loading import LoadingProgress


def describe_state(parts: BrokerParts, state: ServingState) -> tuple[str, bool]:
    """The line, and whether it may change within seconds."""
    if not state.is_open:
        waits_for = "" if parts.zookeeper is None else f", with ZooKeeper at {parts.config.zookeeper_connect}"
        return f"starting{waits_for}", True
    loader = parts.log_loader
    if not loader.is_done:
        return _opening(loader.progress, loader.progress.seconds_left(parts.clock.monotonic_ms())), True
    return f"serving {len(parts.server.drivers)} connections at {', '.join(state.endpoints)}", False


def _opening(progress: LoadingProgress, seconds_left: float) -> str:
    left = f", {seconds_left:.0f} s left" if seconds_left else ""
    return f"serving; opening logs: {progress.opened} of {progress.partitions} partitions{left}"
