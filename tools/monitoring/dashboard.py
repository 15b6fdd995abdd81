"""`headgate dashboard`: print a dashboard for Grafana, which asks Prometheus for the metrics of all brokers.

The dashboard is Grafana's JSON model: import the output, and choose the Prometheus. Exit codes: 0 done, 2 usage.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

SCHEMA_VERSION: Final = 39
"""The version of Grafana's JSON model, that of Grafana 10 and 11; newer ones convert it."""
WIDTH, HEIGHT, COLUMNS = 8, 7, 3
_SOURCE: Final = {"type": "prometheus", "uid": "${prometheus}"}


class Panel(NamedTuple):
    """A plot: its title, the unit of Grafana, and pairs of an expression and a legend."""

    title: str
    unit: str
    targets: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Traffic",
        (
            Panel(
                "Bytes of records",
                "Bps",
                (
                    (_rate("headgate_in_bytes_total"), "in {{instance}}"),
                    (_rate("headgate_out_bytes_total"), "out {{instance}}"),
                ),
            ),
            Panel("Records appended", "cps", ((_rate("headgate_in_records_total"), "{{instance}}"),)),
            Panel("Requests", "reqps", ((_rate("headgate_requests_total", "api"), "{{api}}"),)),
            Panel(
                "Latency, 99th percentile",
                "s",
                (
                    (
                        'histogram_quantile(0.99, sum by (api, le) (rate(headgate_request_seconds_bucket{api=~"Produce|Fetch|Metadata"}[$__rate_interval])))',
                        "{{api}}",
                    ),
                ),
            ),
            Panel(
                "Refusals",
                "cps",
                (
                    (_rate("headgate_request_errors_total", "error"), "{{error}}"),
                    (_rate("headgate_row_errors_total", "error"), "{{error}} (part)"),
                ),
            ),
            Panel("Throttled by quotas", "cps", ((_rate("headgate_quota_throttled_total", "quota"), "{{quota}}"),)),
        ),
    ),
    (
        "Consumers",
        (
            Panel("Lag in records", "short", (("topk(20, sum by (group) (headgate_group_lag_records))", "{{group}}"),)),
            Panel("Lag in time", "s", (("topk(20, max by (group) (headgate_group_lag_seconds))", "{{group}}"),)),
            Panel("Members", "short", (("topk(20, headgate_group_members)", "{{group}}"),)),
        ),
    ),
    (
        "Topics",
        (
            Panel("Bytes in", "Bps", ((f"topk(20, {_rate('headgate_topic_in_bytes_total', 'topic')})", "{{topic}}"),)),
            Panel(
                "Bytes out", "Bps", ((f"topk(20, {_rate('headgate_topic_out_bytes_total', 'topic')})", "{{topic}}"),)
            ),
            Panel("Size", "bytes", (("topk(20, sum by (topic) (headgate_partition_size_bytes))", "{{topic}}"),)),
        ),
    ),
    (
        "Replicas",
        (
            Panel(
                "Partitions in danger",
                "short",
                (
                    ("sum(headgate_partitions_offline)", "without a leader"),
                    ("sum(headgate_partitions_under_min_isr)", "below min.insync.replicas"),
                    ("sum(headgate_partitions_under_replicated)", "under-replicated"),
                    ("sum(headgate_replicas_offline)", "failed replicas"),
                    ("sum(increase(headgate_unclean_elections_total[$__rate_interval]))", "unclean elections"),
                ),
            ),
            Panel("Partitions led", "short", (("headgate_partitions_led", "{{instance}}"),)),
            Panel("The most records that a replica lacks", "short", (("headgate_replica_max_lag", "{{instance}}"),)),
        ),
    ),
    (
        "Broker",
        (
            Panel("Idle share of the loop", "percent", (("headgate_loop_idle_percent", "{{instance}}"),)),
            Panel("Memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
            Panel(
                "Connections",
                "short",
                (("sum by (listener, instance) (headgate_listener_connections)", "{{listener}} {{instance}}"),),
            ),
            Panel("Free space of the fullest disk", "bytes", (("headgate_disk_free_bytes", "{{instance}}"),)),
            Panel(
                "Disks",
                "Bps",
                (
                    (_rate("headgate_disk_read_bytes_total"), "read {{instance}}"),
                    (_rate("headgate_disk_written_bytes_total"), "written {{instance}}"),
                ),
            ),
            Panel(
                "Highest dirty ratio of a compacted log",
                "percent",
                (("headgate_compaction_dirty_percent", "{{instance}}"),),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Grafana's JSON model of the dashboard."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, plots in ROWS:
        panels.append(
            {
                "type": "row",
                "title": title,
                "id": len(panels) + 1,
                "gridPos": _place(0, top, COLUMNS * WIDTH, 1),
                "collapsed": False,
                "panels": [],
            }
        )
        for number, plot in enumerate(plots):
            row, column = divmod(number, COLUMNS)
            place = _place(column * WIDTH, top + 1 + row * HEIGHT, WIDTH, HEIGHT)
            panels.append(_panel(plot, len(panels) + 1, place))
        top += 1 + HEIGHT * -(-len(plots) // COLUMNS)
    return {
        "title": "Headgate",
        "uid": "headgate",
        "schemaVersion": SCHEMA_VERSION,
        "tags": ["kafka", "headgate"],
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "prometheus", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(plot: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": _SOURCE}
        for index, (expression, legend) in enumerate(plot.targets)
    ]
    return {
        "type": "timeseries",
        "title": plot.title,
        "id": number,
        "gridPos": place,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": plot.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def main(arguments: Sequence[str]) -> int:
    """Run `headgate dashboard`; returns the exit code."""
    argparse.ArgumentParser(
        prog="headgate dashboard",
        description="Print a dashboard for Grafana. Import the output, and choose the Prometheus that reads the brokers.",
    ).parse_args(arguments)
    print(json.dumps(dashboard(), indent=2))
    return 0
