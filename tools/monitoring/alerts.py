"""`headgate alerts`: print alerting rules for Prometheus.

Each rule says what has happened and what to do. Exit codes: 0 done, 2 called wrongly.
Source: the format of Prometheus' rule files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.tools.output import seconds

CRITICAL, WARNING = "critical", "warning"
DEFAULT_LAG_S: Final = 300


class Alert(NamedTuple):
    """A rule: its name, expression, how long the expression has to hold, its severity, and two sentences."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    cure: str


def alerts(lag_s: float = DEFAULT_LAG_S) -> list[Alert]:
    """The rules. `lag_s`: the age of the oldest unread record from which on a group is late."""
    return [
        Alert("HeadgateDown", 'up{job="headgate"} == 0', "1m", CRITICAL,
              "Broker {{ $labels.instance }} does not answer.", "Look at its log and at /readyz."),
        Alert("HeadgatePartitionsOffline", "sum(headgate_partitions_offline) > 0", "1m", CRITICAL,
              "{{ $value }} partitions have no leader.", "Start a broker with an in-sync replica; headgate topics shows which."),
        Alert("HeadgateBelowMinIsr", "headgate_partitions_under_min_isr > 0", "1m", CRITICAL,
              "{{ $value }} partitions of {{ $labels.instance }} refuse acks=all.", "Start the brokers whose replicas are missing."),
        Alert("HeadgateNoController", "sum(headgate_controller_active) != 1", "1m", CRITICAL,
              "{{ $value }} brokers are the controller; one should be.", "Look at ZooKeeper and at the logs of the brokers."),
        Alert("HeadgateUncleanElection", "sum(increase(headgate_unclean_elections_total[10m])) > 0", "0m", CRITICAL,
              "{{ $value }} partitions got a leader that was not in sync: records may be lost.",
              "The log of the controller names them; unclean.leader.election.enable allows it."),
        Alert("HeadgateUnderReplicated", "headgate_partitions_under_replicated > 0", "5m", WARNING,
              "{{ $value }} partitions of {{ $labels.instance }} miss a replica.", "Look for a broker that is down or slow."),
        Alert("HeadgateReplicasFailed", "headgate_replicas_offline > 0", "1m", WARNING,
              "{{ $value }} replicas of {{ $labels.instance }} have failed.", "Look at the disks and at the log of the broker."),
        Alert("HeadgateGroupLate", f"max by (group) (headgate_group_lag_seconds) > {lag_s:g}", "5m", WARNING,
              f"Group {{{{ $labels.group }}}} is late by {{{{ $value }}}} s; {lag_s:g} are allowed.",
              "headgate groups lag shows its partitions and members."),
        Alert("HeadgateDiskFails", "headgate_disk_offline_directories + headgate_disk_hung_directories > 0", "1m", CRITICAL,
              "A disk of {{ $labels.instance }} fails or hangs.", "Look at the system's log; other brokers take over replicated partitions."),
        Alert("HeadgateDiskFull", "headgate_disk_full_directories > 0", "1m", CRITICAL,
              "{{ $labels.instance }} refuses records: a disk is nearly full.", "Shorten retention, or add space."),
        Alert("HeadgateDiskFillsUp", "predict_linear(headgate_disk_free_bytes[6h], 86400) < 0", "1h", WARNING,
              "The fullest disk of {{ $labels.instance }} is full in a day.", "Shorten retention, or add space."),
        Alert("HeadgateUnsyncedLogs", "headgate_disk_unsynced_logs > 0", "5m", CRITICAL,
              "{{ $value }} logs of {{ $labels.instance }} accept no records after a failed sync.", "Look at the disk; the broker repairs them once it answers."),
        Alert("HeadgateCompactionStands", "headgate_compaction_uncleanable_partitions > 0", "5m", WARNING,
              "{{ $value }} damaged logs of {{ $labels.instance }} are not compacted.", "headgate log verify shows the damage."),
        Alert("HeadgateCertificateExpires", "headgate_tls_certificate_expiry_days < 14", "1h", WARNING,
              "The certificate of listener {{ $labels.listener }} expires in {{ $value }} days.", "Replace the file; the broker reads the new one."),
        Alert("HeadgateFaults", 'rate(headgate_request_errors_total{error="UNKNOWN_SERVER_ERROR"}[5m]) > 0', "5m", WARNING,
              "{{ $labels.instance }} met a fault of its own in {{ $labels.api }}.", "Its log has the traceback: please report it."),
    ]  # fmt: skip


def rules(lag_s: float = DEFAULT_LAG_S) -> str:
    """The rules as YAML, for `rule_files` of Prometheus."""
    lines = ["groups:", "  - name: headgate", "    rules:"]
    for alert in alerts(lag_s):
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.cure)}",
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run `headgate alerts`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate alerts",
        description="Print alerting rules for Prometheus: save the output, and name the file in rule_files."
        " The job that reads the brokers is named headgate.",
    )
    parser.add_argument(
        "--lag", type=seconds, default=DEFAULT_LAG_S, metavar="seconds",
        help=f"the age of a group's oldest unread record that is late; default: {DEFAULT_LAG_S}",
    )  # fmt: skip
    print(rules(parser.parse_args(arguments).lag))
    return 0
