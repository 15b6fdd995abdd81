"""A reading of a broker's metrics (Prometheus' text format), and the figures between two readings. Pure.

A figure is None where the metric is not there, or where a counter has begun again with a new start of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MOST_LINES: Final = 20_000
_LINE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? ([^ ]+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PREFIXES: Final = ("headgate_", "process_")
_LATENCY: Final = "headgate_request_seconds"

RATES: Final = {
    "in_bytes_per_s": "headgate_in_bytes_total",
    "out_bytes_per_s": "headgate_out_bytes_total",
    "in_records_per_s": "headgate_in_records_total",
    "in_batches_per_s": "headgate_in_batches_total",
    "replicated_in_bytes_per_s": "headgate_replicated_in_bytes_total",
    "replicated_out_bytes_per_s": "headgate_replicated_out_bytes_total",
    "requests_per_s": "headgate_requests_total",
    "errors_per_s": "headgate_row_errors_total",
    "loop_share": "headgate_loop_cpu_seconds_total",
    "cpu_share": "process_cpu_seconds_total",
    "disk_read_bytes_per_s": "headgate_disk_read_bytes_total",
    "disk_written_bytes_per_s": "headgate_disk_written_bytes_total",
    "compaction_read_bytes_per_s": "headgate_compaction_read_bytes_total",
    "compaction_written_bytes_per_s": "headgate_compaction_written_bytes_total",
}
"""Figures that are the growth of a counter in a second; counters with labels are summed."""
_WITH_LABELS: Final = frozenset(("headgate_requests_total", "headgate_row_errors_total"))
"""Counters with labels have no sample before their first event."""
GAUGES: Final = {
    "connections": "headgate_connections",
    "memory_bytes": "process_resident_memory_bytes",
    "request_memory_bytes": "headgate_memory_request_bytes",
    "requests_parked": "headgate_requests_parked",
    "worker_running": "headgate_worker_running",
    "disk_free_bytes": "headgate_disk_free_bytes",
    "partitions": "headgate_partitions",
    "partitions_led": "headgate_partitions_led",
    "partitions_under_replicated": "headgate_partitions_under_replicated",
    "partitions_offline": "headgate_partitions_offline",
    "partitions_reassigning": "headgate_partitions_reassigning",
    "replica_max_lag_records": "headgate_replica_max_lag",
    "compaction_runs": "headgate_compaction_runs_total",
    "compaction_failures": "headgate_compaction_failures_total",
    "compaction_dirty_percent": "headgate_compaction_dirty_percent",
    "compaction_delay_s": "headgate_compaction_delay_seconds",
}
FIGURES: Final = (*RATES, *GAUGES)


class Reading(NamedTuple):
    """The metrics at a time: sums over labels, and the buckets of the latency of each API."""

    at_s: float
    sums: Mapping[str, float]
    latency: Mapping[str, Sequence[tuple[float, float]]]
    """By API: the bound of each bucket in seconds, and the requests up to there."""
    latency_sums_s: Mapping[str, float]
    requests: Mapping[str, float]
    """By API."""


class ApiFigures(NamedTuple):
    """An API between two readings. `mean_ms` and `p99_ms` are of a sample of the requests, waits included."""

    api: str
    requests_per_s: float
    mean_ms: float | None
    p99_ms: float | None


def parse(text: str, at_s: float) -> Reading:
    """A reading, from the first `MOST_LINES` lines. Lines that are not of the format are left out."""
    sums: dict[str, float] = {}
    latency: dict[str, list[tuple[float, float]]] = {}
    latency_sums_s: dict[str, float] = {}
    requests: dict[str, float] = {}
    for line in text.splitlines()[:MOST_LINES]:
        match = _LINE.fullmatch(line) if line.startswith(_PREFIXES) else None
        if match is None:
            continue
        name, labels, value = match[1], dict(_LABEL.findall(match[2] or "")), _number(match[3])
        if value is None:
            continue
        api = labels.get("api", "")
        if name == f"{_LATENCY}_bucket":
            latency.setdefault(api, []).append((_number(labels.get("le", "")) or 0.0, value))
        elif name == f"{_LATENCY}_sum":
            latency_sums_s[api] = latency_sums_s.get(api, 0.0) + value
        else:
            sums[name] = sums.get(name, 0.0) + value
            if name == "headgate_requests_total":
                requests[api] = requests.get(api, 0.0) + value
    return Reading(at_s, sums, latency, latency_sums_s, requests)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def figures(before: Reading | None, after: Reading) -> dict[str, float | None]:
    """The figures of `FIGURES` at a reading; rates since the reading before."""
    found: dict[str, float | None] = {figure: after.sums.get(name) for figure, name in GAUGES.items()}
    found.update((figure, _rate(before, after, name)) for figure, name in RATES.items())
    return found


def _rate(before: Reading | None, after: Reading, name: str) -> float | None:
    is_known = name in after.sums or name in _WITH_LABELS
    if before is None or not is_known or after.at_s <= before.at_s:
        return None
    grown = after.sums.get(name, 0.0) - before.sums.get(name, 0.0)
    return None if grown < 0 else grown / (after.at_s - before.at_s)


def api_figures(before: Reading | None, after: Reading) -> list[ApiFigures]:
    """The APIs that were asked for between two readings, the busiest first."""
    if before is None or after.at_s <= before.at_s:
        return []
    found = []
    for api, count in after.requests.items():
        grown = count - before.requests.get(api, 0.0)
        if grown > 0:
            rate = grown / (after.at_s - before.at_s)
            found.append(ApiFigures(api, rate, _mean_ms(before, after, api), percentile_ms(before, after, api, 0.99)))
    return sorted(found, key=lambda each: -each.requests_per_s)


def _mean_ms(before: Reading, after: Reading, api: str) -> float | None:
    counts = _grown_buckets(before, after, api)
    seconds = after.latency_sums_s.get(api, 0.0) - before.latency_sums_s.get(api, 0.0)
    return 1000 * seconds / counts[-1][1] if counts and counts[-1][1] > 0 and seconds >= 0 else None


def percentile_ms(before: Reading, after: Reading, api: str, share: float) -> float | None:
    """The time within which a share of the requests was answered, between the bounds of its bucket."""
    counts = _grown_buckets(before, after, api)
    if not counts or counts[-1][1] <= 0:
        return None
    wanted = share * counts[-1][1]
    for (low_s, below), (high_s, count) in pairwise([(0.0, 0.0), *counts]):
        if count >= wanted:
            if high_s == float("inf"):
                return 1000 * low_s
            part = (wanted - below) / (count - below) if count > below else 1.0
            return 1000 * (low_s + (high_s - low_s) * part)
    return None


def _grown_buckets(before: Reading, after: Reading, api: str) -> list[tuple[float, float]]:
    earlier = dict(before.latency.get(api, ()))
    return sorted((bound, count - earlier.get(bound, 0.0)) for bound, count in after.latency.get(api, ()))
