"""Live figures: of brokers whose HTTP listeners are known, otherwise records a second from the ends of partitions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.broker_http import (
    NO_ADDRESS,
    NOT_ALLOWED,
    READINESS,
    BrokerHttp,
    ConsoleCluster,
    may_describe_cluster,
)
from headgate.tools.console.live import end_offsets
from headgate.tools.console.live.histories import BrokerHistory
from headgate.tools.console.live.readings import FIGURES
from headgate.tools.console.parameters import Parameters

_STEP_S: Final = 1.0
_PROGRESS_ROUNDS: Final = 2


def live(cluster: ConsoleCluster, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Events about once a second. The first one names the columns; the next ones have points. Raises ClientError."""
    http = cluster.http
    reason = NO_ADDRESS
    if http.addresses:
        reason = "" if may_describe_cluster(cluster) else NOT_ALLOWED
    if reason:
        yield {"source": "end offsets", "missing": {"figures of brokers": reason}}
        yield from _from_end_offsets(cluster)
    else:
        yield {"source": "metrics", "columns": FIGURES, "brokers": list(http.addresses), "missing": {}}
        yield from _from_metrics(http)


def _from_metrics(http: BrokerHttp) -> Iterator[dict[str, Any]]:
    histories = http.histories
    histories.watch()
    try:
        sent = dict.fromkeys(histories.brokers, 0)
        events_sent = last_round = 0
        while True:
            events = {address: _news(history, sent[address]) for address, history in histories.brokers.items()}
            for address, news in events.items():
                if news["points"]:
                    sent[address] = news["points"][-1][0]
                news["name"] = http.broker_name(address)
                if events_sent % _PROGRESS_ROUNDS == 0:
                    news["conditions"] = _conditions(http, address)
            yield {"brokers": events}
            events_sent += 1
            last_round = histories.wait_for_round(last_round, _STEP_S)
    finally:
        histories.leave()


def _news(history: BrokerHistory, after: int) -> dict[str, Any]:
    points = [[point.number, point.at_ms, point.p99_ms, *point.values] for point in history.points_after(after)]
    return {"points": points, "apis": history.apis(), "error": history.error}


def _conditions(http: BrokerHttp, address: str) -> list[dict[str, Any]] | None:
    """The conditions of `/readyz` that are not met; None if the broker does not answer."""
    try:
        rows = http.json(address, READINESS).get("conditions")
    except ClientError:
        return None
    return [row for row in rows if isinstance(row, dict) and not row.get("is_met")] if isinstance(rows, list) else None


def _from_end_offsets(cluster: Cluster) -> Iterator[dict[str, Any]]:
    before = end_offsets.survey(cluster, time.monotonic)
    while True:
        due_s = before.at_s + end_offsets.pause_s(len(before.ends))
        while (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STEP_S))
            if left_s > _STEP_S:
                yield {}
        after = end_offsets.survey(cluster, time.monotonic)
        records_per_s, topics = end_offsets.growth(before, after)
        before = after
        yield {
            "at_ms": time.time_ns() // 1_000_000,
            "in_records_per_s": records_per_s,
            "topics": [{"topic": topic, "in_records_per_s": rate} for topic, rate in topics],
            "partitions": len(after.ends),
            "failed_partitions": after.failed,
        }
