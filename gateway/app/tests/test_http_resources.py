"""What a broker serves over HTTP, made of real parts: what it waits for, and what it tells of itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import __version__
from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.app.http_resources import make_resources
from headgate.gateway.app.serving_state import ServingState
from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance import log_loading
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import HandlerBroker, UnsyncedFiles, records
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.errors import ErrorCode, KafkaError

PAGE = Path(headgate.__file__).resolve().parents[2] / "docs" / "http.md"
NOW_MS = 1_700_000_000_000


def get(parts: BrokerParts, state: ServingState, path: str) -> tuple[int, Any]:
    resource = make_resources(parts, state).find(path)
    assert resource is not None
    answer = resource.answer()
    return answer.status, json.loads(b"".join(answer.body))


def waiting(parts: BrokerParts, state: ServingState, path: str = "/readyz") -> dict[str, str]:
    """What the broker waits for, by condition."""
    status, value = get(parts, state, path)
    rows = {row["name"]: row["waits_for"] for row in value["conditions"] if not row["is_met"]}
    assert (status, value["status"]) == ((503, "waiting") if rows else (200, "ready"))
    return rows


def state_of(parts: BrokerParts, *, is_open: bool = True) -> ServingState:
    state = ServingState.begin(parts.clock)
    state.is_open = is_open
    return state


def started(node: HandlerBroker) -> BrokerParts:
    node.parts.log_loader.start()
    return node.parts


def test_every_path_is_answered(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    parts = started(node)
    resources = make_resources(parts, state_of(parts))
    of_tools = [f"/v1/{name}.json" for name in ("broker", "census", "connections", "lag")]
    assert resources.paths() == ["/", "/livez", "/metrics", "/metrics/broker", "/readyz", "/startupz", *of_tools]
    for path in resources.paths():
        resource = resources.find(path)
        assert resource is not None
        assert resource.summary
        answer = resource.answer()
        assert (answer.status, bool(b"".join(answer.body))) == (200, True)
    node.close()


def test_a_broker_is_ready_between_its_start_and_its_stop(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    parts, state = started(node), state_of(node.parts, is_open=False)
    assert waiting(parts, state) == {"listeners": "the start of this broker"}
    assert waiting(parts, state, "/startupz") == {"listeners": "the start of this broker"}
    assert waiting(parts, state, "/livez") == {}
    state.is_open = True
    assert waiting(parts, state) == waiting(parts, state, "/startupz") == {}
    state.is_stopping = True
    assert waiting(parts, state) == {"listeners": "nothing: this broker is stopping"}
    assert waiting(parts, state, "/startupz") == {}
    node.close()


def test_a_broker_is_ready_once_its_logs_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = HandlerBroker(tmp_path, offsets_topic_num_partitions="2")
    node.services.metadata.create_topic("t", 3)
    node.services.groups.prepare()
    for index in range(3):
        node.services.partitions.get("t", index).append(records(bytes(1_000)), 1, NOW_MS)
    node.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    monkeypatch.setattr(log_loading, "FEW_PARTITIONS", 0)
    monkeypatch.setattr(log_loading, "BATCH_PARTITIONS", 1)
    time = ManualTime()
    config = BrokerConfig.load("", {"log.dirs": str(tmp_path), "offsets.topic.num.partitions": "2"})
    broker = Broker(config, Seams(time.clock, UnsyncedFiles(), make_scheduler=time.make_scheduler))
    slices = time.scheduler.hold_slices()
    parts, state = broker.parts, state_of(broker.parts)
    assert "logs" in waiting(parts, state), "before the first one is opened too"
    parts.partitions.go_on_in_threads()
    parts.groups.start()
    parts.log_loader.start()
    seen: list[dict[str, str]] = []
    progress: list[tuple[int, int]] = []
    while slices.waiting:
        seen.append(waiting(parts, state))
        row = next(row for row in get(parts, state, "/readyz")[1]["conditions"] if row["name"] == "logs")
        progress.append((row["bytes_done"], row["partitions_done"]))
        assert (row["partitions_total"], row["is_met"]) == (5, False)
        slices.run_one()
        time.advance(1)
    assert seen[0] == {
        "logs": "the opening of 5 of 5 partitions",
        "coordinators": "2 partitions of __consumer_offsets to load",
    }
    assert seen[-1] == {"logs": "the opening of 1 of 5 partitions"}
    assert progress == sorted(progress)
    assert progress[-1][0] > 0
    assert waiting(parts, state) == waiting(parts, state, "/startupz") == {}
    parts.log_manager.close()


def test_a_broker_whose_disk_is_gone_is_not_ready(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    parts, state = started(node), state_of(node.parts)
    (status,) = parts.partitions.directories.values()
    status.set_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it takes nothing"))
    assert waiting(parts, state) == {"disks": f"{tmp_path}, which is offline: it takes nothing"}
    assert waiting(parts, state, "/startupz") == {}, "a restart would not bring it back"
    status.set_offline(None)
    status.set_hung(is_hung=True)
    assert waiting(parts, state) == {"disks": f"{tmp_path}, whose disk does not respond"}
    status.set_hung(is_hung=False)
    assert waiting(parts, state) == {}
    node.close()


def test_a_directory_that_the_start_refused_is_told(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    parts, state = started(node), state_of(node.parts)
    node.log_manager.refused["/b"] = OSError("it is none")
    assert waiting(parts, state) == {"disks": "/b, which is offline: it is none"}
    node.close()


def test_a_broker_of_a_cluster_is_ready_once_it_is_in_it(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    node = WholeBroker(tmp_path, keeper)
    parts, state = node.parts, state_of(node.parts)
    assert waiting(parts, state) == {}
    keeper.stop()
    node.settle(1_000)
    assert waiting(parts, state) == {}, "the session lives on"
    node.settle(node.config.zookeeper_session_timeout_ms)
    assert waiting(parts, state) == {"registration": "the registration in ZooKeeper at model:2181"}
    assert waiting(parts, state, "/startupz") == {}
    keeper.start()
    node.settle()
    assert waiting(parts, state) == {}
    parts.stall_watch.is_in_doubt = True
    assert waiting(parts, state)["registration"].startswith("ZooKeeper at model:2181 to confirm the session")
    parts.stall_watch.is_in_doubt = False
    node.stop()


def test_the_page_has_every_path_and_every_field(tmp_path: Path) -> None:
    page = PAGE.read_text()
    node = HandlerBroker(tmp_path)
    parts, state = node.parts, state_of(node.parts)
    assert sorted(re.findall(r"^\| `(/\S*)` \|", page, re.MULTILINE)) == make_resources(parts, state).paths()
    for path, example in re.findall(r"^`(/v1/\S+)`:\n\n```json\n(.*?)```", page, re.MULTILINE | re.DOTALL):
        assert json.loads(example).keys() == get(parts, state, path)[1].keys(), path
    node.close()


def test_a_broker_tells_of_itself(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, advertised_listeners="PLAINTEXT://broker.example:9092")
    parts, state = node.parts, state_of(node.parts)
    state.endpoints.append("PLAINTEXT://127.0.0.1:40123")
    state.http_endpoints.append("http://127.0.0.1:40124")
    node.time.advance(1_500)
    status, value = get(parts, state, "/v1/broker.json")
    assert status == 200
    assert value.pop("versions")["headgate"] == __version__
    assert value == {
        "node_id": 0,
        "cluster_id": parts.metadata.image.cluster_id,
        "controller_id": 0,
        "zookeeper_connect": None,
        "started_ms": state.started_ms,
        "uptime_ms": 1_500,
        "endpoints": ["PLAINTEXT://127.0.0.1:40123"],
        "advertised_endpoints": ["PLAINTEXT://broker.example:9092"],
        "http_endpoints": ["http://127.0.0.1:40124"],
        "log_directories": [str(tmp_path)],
    }
    node.close()
