"""A broker inside a program: it starts, dies and comes back on the same port; it leaves nothing behind."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Headgate
from headgate.gateway.app import cli
from headgate.gateway.app.child_process import HeadgateError
from headgate.gateway.app.tests.test_child_process import answers, is_alive

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(scope="module")
def shared() -> Iterator[Headgate]:
    """One broker for the tests that do not stop it."""
    with Headgate() as broker:
        yield broker


def topics_of(broker: Headgate, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    assert cli.main(["topics", "list", "--json", "--bootstrap-server", broker.bootstrap]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    return {row["topic"]: row["partitions"] for row in rows}


def test_clients_can_connect(shared: Headgate) -> None:
    assert shared.bootstrap.startswith("127.0.0.1:")
    assert answers(shared.bootstrap)
    assert shared.pid != os.getpid()
    assert shared.start() is shared, "a second start changes nothing"


def test_every_topic_has_a_name_of_its_own(shared: Headgate, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shared.topic(), shared.topic(partitions=3, retention_ms=1000)
    assert first != second
    found = topics_of(shared, capsys)
    assert (found[first], found[second]) == (1, 3)
    assert cli.main(["topics", "describe", second, "--bootstrap-server", shared.bootstrap]) == 0
    assert json.loads(capsys.readouterr().out)["configs"] == {"retention.ms": "1000"}


def test_the_brokers_reason_is_told(shared: Headgate) -> None:
    with pytest.raises(HeadgateError, match="topic a b was not created: Topic name is invalid: 'a b' contains"):
        shared.create_topic("a b")


def test_topics_from_the_command_line(shared: Headgate, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap-server", shared.bootstrap, "--json"]
    assert cli.main(["topics", "create", "by.hand", "--partitions", "2", *where]) == 0
    assert cli.main(["topics", "create", "by.hand", *where]) == 1
    assert "Topic 'by.hand' already exists. (TOPIC_ALREADY_EXISTS); --if-not-exists" in capsys.readouterr().err
    assert cli.main(["topics", "delete", "by.hand", *where]) == 0
    assert cli.main(["topics", "delete", "by.hand", *where]) == 1
    capsys.readouterr()
    assert "by.hand" not in topics_of(shared, capsys)


def test_there_is_no_http_unless_it_is_asked_for(shared: Headgate) -> None:
    with pytest.raises(HeadgateError, match=r'Headgate\(headgate_http_listeners="http://127\.0\.0\.1:0"\)'):
        _ = shared.http
    with (
        Headgate(headgate_http_listeners="http://127.0.0.1:0") as broker,
        urllib.request.urlopen(f"{broker.http}/readyz", timeout=60) as answer,
    ):
        assert json.load(answer)["status"] == "ready"
    with Headgate({"headgate.metrics.listener": "0"}) as broker:
        assert broker.http.startswith("http://127.0.0.1:")


def test_its_clock_is_its_own(shared: Headgate) -> None:
    with pytest.raises(HeadgateError, match="use Headgate"):
        shared.advance(1)


def test_a_killed_broker_comes_back_with_port_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    with Headgate() as broker:
        name, bootstrap, pid = broker.topic(partitions=2), broker.bootstrap, broker.pid
        broker.kill()
        assert not broker.is_running
        assert not is_alive(pid)
        assert broker.bootstrap == bootstrap
        assert not answers(bootstrap)
        broker.restart()
        assert broker.bootstrap == bootstrap
        assert topics_of(broker, capsys) == {name: 2}
        broker.restart()
        assert topics_of(broker, capsys) == {name: 2}


def test_nothing_is_left_behind() -> None:
    with Headgate() as broker:
        pid, directory = broker.pid, broker.directory
        assert Path(directory).is_dir()
    assert not is_alive(pid)
    assert not Path(directory).exists()
    assert not broker.is_running
    with pytest.raises(HeadgateError, match="was not started"):
        _ = broker.bootstrap


def test_data_in_a_given_directory_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Headgate(directory=tmp_path / "kept", num_partitions=3) as broker:
        broker.create_topic("a", partitions=-1)
    with Headgate({"log.dirs": tmp_path / "kept"}) as broker:
        assert topics_of(broker, capsys) == {"a": 3}
    assert (tmp_path / "kept").is_dir()


def test_values_are_written_as_kafka_wants_them() -> None:
    with Headgate(auto_create_topics_enable=False, log_cleanup_policy=["compact", "delete"]) as broker:
        assert broker.is_running
        assert repr(broker) == f"Headgate({broker.bootstrap})"
    assert repr(broker) == "Headgate(not running)"
