"""What a broker serves over HTTP: its resources, made of its parts.

A part that has something to serve gets its path in `make_resources`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headgate import __version__
from headgate.gateway.http.resources import JSON, HttpAnswer, HttpResource, HttpResources
from headgate.gateway.lag import broker_lag
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from headgate.gateway.app.composition import BrokerParts
    from headgate.gateway.app.serving_state import ServingState
    from headgate.gateway.http.health import HealthCondition, Loading
    from headgate.gateway.lag.broker_lag import BrokerLag

_HEALTH: Final = ("headgate.gateway.http.health", "headgate.gateway.http.json_body")
_JSON: Final = ("headgate.gateway.http.json_body",)
_CENSUS: Final = ("headgate.gateway.census.census_json",)
_CONNECTIONS: Final = ("headgate.gateway.census.connections_json",)
_EXPOSITION: Final = ("headgate.gateway.metrics.exposition",)


def make_resources(parts: BrokerParts, state: ServingState) -> HttpResources:
    """The resources of one broker."""
    resources = HttpResources()
    resources.add("/metrics", HttpResource("metrics for Prometheus", partial(_metrics, parts), _EXPOSITION))
    of_broker = HttpResource("those of the broker as a whole", partial(_broker_metrics, parts), _EXPOSITION)
    resources.add("/metrics/broker", of_broker)
    for path, summary, conditions in (
        ("/livez", "whether the broker's loop turns", _alive),
        ("/startupz", "whether the broker has started", _started),
        ("/readyz", "whether the broker serves all that it has, and what it waits for", _ready),
    ):
        resources.add(path, HttpResource(summary, partial(_health, partial(conditions, parts, state)), _HEALTH))
    describe = partial(describe_broker, parts, state)
    resources.add(
        "/v1/broker.json", HttpResource("this broker: versions, ids, addresses", partial(_json, describe), _JSON)
    )
    answer_lag = HttpResource("the lag of groups, in records and in time", partial(_lag, parts.lag), broker_lag.MODULES)
    resources.add("/v1/lag.json", answer_lag)
    resources.add(
        "/v1/census.json", HttpResource("the clients of this broker, with verdicts", partial(_census, parts), _CENSUS)
    )
    answer_connections = partial(_connections, parts)
    resources.add("/v1/connections.json", HttpResource("every open connection", answer_connections, _CONNECTIONS))
    return resources


def _lag(lag: BrokerLag) -> HttpAnswer:
    return HttpAnswer(JSON, lag.json())


def _census(parts: BrokerParts) -> HttpAnswer:
    from headgate.gateway.census import census_json

    return census_json.answer(parts.census, parts.config.node_id, parts.clock.now_ms())


def _connections(parts: BrokerParts) -> HttpAnswer:
    from headgate.gateway.census import connections_json

    now = connections_json.Now(parts.clock.now_ms(), parts.clock.monotonic_ms())
    return connections_json.answer(parts.server.drivers, parts.dispatcher.request_counts, parts.config.node_id, now)


def _metrics(parts: BrokerParts) -> HttpAnswer:
    from headgate.gateway.metrics.exposition import CONTENT_TYPE_LATEST, exposition

    parts.lag.collector()  # registers its tables
    return HttpAnswer(CONTENT_TYPE_LATEST, exposition(parts.metrics))


def _broker_metrics(parts: BrokerParts) -> HttpAnswer:
    from headgate.gateway.metrics.exposition import CONTENT_TYPE_LATEST, exposition

    return HttpAnswer(CONTENT_TYPE_LATEST, exposition(parts.metrics, is_whole=False))


def _json(describe: Callable[[], dict[str, Any]]) -> HttpAnswer:
    from headgate.gateway.http import json_body

    return json_body.answer(describe())


def describe_broker(parts: BrokerParts, state: ServingState) -> dict[str, Any]:
    """The object of `/v1/broker.json`."""
    image, config = parts.metadata.image, parts.config
    return {
        "versions": {"headgate": __version__, "python": platform.python_version()},
        "node_id": config.node_id,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id if image.controller_id >= 0 else None,
        "zookeeper_connect": config.zookeeper_connect,
        "started_ms": state.started_ms,
        "uptime_ms": round(parts.clock.monotonic_ms() - state.started_monotonic_ms),
        "endpoints": list(state.endpoints),
        "advertised_endpoints": [f"{name}://{host}:{port}" for name, host, port in config.advertised_listeners],
        "http_endpoints": list(state.http_endpoints),
        "log_directories": list(config.log_directories),
    }


# Health


def _health(conditions: Callable[[], Sequence[HealthCondition]]) -> HttpAnswer:
    from headgate.gateway.http import health, json_body

    status, word, rows = health.report(conditions())
    return json_body.answer_with_rows({"status": word}, "conditions", rows, status)


def _alive(_parts: BrokerParts, _state: ServingState) -> Sequence[HealthCondition]:
    from headgate.gateway.http import health

    return (health.LOOP,)


def _started(parts: BrokerParts, state: ServingState) -> Sequence[HealthCondition]:
    """Each of them stays met."""
    from headgate.gateway.http import health

    return health.listeners(is_open=state.is_open), health.logs(_loading(parts))


def _ready(parts: BrokerParts, state: ServingState) -> Sequence[HealthCondition]:
    from headgate.gateway.http import health

    image, config = parts.metadata.image, parts.config
    loading = {CONSUMER_OFFSETS: parts.groups.loading_count, TRANSACTION_STATE: parts.transactions.loading_count}
    directories = parts.partitions.directories.values()
    disks = [
        health.Disk(one.path, None if one.offline_error is None else one.offline_error.message, one.is_hung)
        for one in directories
    ]
    refused = [health.Disk(path, str(error), is_hung=False) for path, error in parts.log_manager.refused.items()]
    conditions = [
        health.listeners(is_open=state.is_open, is_stopping=state.is_stopping),
        health.logs(_loading(parts)),
        health.coordinators(loading),
        health.disks([*disks, *refused]),
    ]
    if config.zookeeper_connect is not None:
        conditions += [
            health.registration(
                is_registered=parts.source.is_registered,
                connect=config.zookeeper_connect,
                is_in_doubt=parts.stall_watch.is_in_doubt,
            ),
            health.controller(is_known=image.controller_id in image.brokers, knows_topics=parts.metadata.knows_topics),
        ]
    return conditions


def _loading(parts: BrokerParts) -> Loading:
    from headgate.gateway.http import health

    progress, is_done = parts.log_loader.progress, parts.log_loader.is_done
    seconds_left = progress.seconds_left(parts.clock.monotonic_ms())
    return health.Loading(
        is_done=is_done,
        partitions_done=progress.opened,
        partitions_total=progress.partitions,
        bytes_done=progress.bytes_scanned,
        bytes_total=progress.bytes,
        seconds_left=round(seconds_left, 1) if is_done or seconds_left else None,
    )
