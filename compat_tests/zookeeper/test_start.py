"""A broker with a real ZooKeeper: starts that are refused, restarts, and a ZooKeeper that stops, hangs and comes back.

`docs/zookeeper.md` promises the sentences that the refusals assert here.
"""

from __future__ import annotations

import itertools
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient

from compat_tests.harness.broker import HeadgateBroker
from compat_tests.harness.ports import reserve
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.harness.zookeeper import ZooKeeper

SESSION_MS = 2_000  # where ZooKeeper goes, or does not answer
LONG_SESSION_MS = 30_000  # elsewhere: a busy machine must not end it
SHORT_WAIT = {"zookeeper.connection.timeout.ms": "2000"}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def own_zookeeper() -> Iterator[ZooKeeper]:
    """One that a test may stop."""
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HeadgateBroker]:
    """A broker that a test starts once it has set zookeeper.connect."""
    made = HeadgateBroker(tmp_path / "broker", {"offsets.topic.num.partitions": "1"})
    try:
        yield made
    finally:
        made.kill()


def at(zookeeper: ZooKeeper) -> str:
    """A path of a test's own in ZooKeeper."""
    return f"{zookeeper.connect}/test-{next(NUMBERS)}"


def start(broker: HeadgateBroker, connect: str, session_ms: int = LONG_SESSION_MS) -> float:
    broker.settings |= {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": str(session_ms)}
    return broker.start()


def refusal(directory: Path, settings: Mapping[str, str], timeout_s: float = 20) -> str:
    """The last line of a broker that does not start."""
    broker = HeadgateBroker(directory, {"zookeeper.session.timeout.ms": str(LONG_SESSION_MS), **settings})
    broker.port = reserve(broker)
    result = subprocess.run(broker.command(), check=False, capture_output=True, text=True, timeout=timeout_s)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    return result.stderr.splitlines()[-1]


@contextmanager
def reader(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def value(client: KazooClient, path: str) -> Any:
    return json.loads(client.get(path)[0])


def leader_epochs(connect: str, topic: str) -> list[int]:
    with reader(connect) as client:
        path = f"/brokers/topics/{topic}/partitions"
        return [value(client, f"{path}/{index}/state")["leader_epoch"] for index in sorted(client.get_children(path))]


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(settings)
    with closing(consumer):
        consumer.subscribe([topic])
        found: list[str] = []

        def is_done() -> bool:
            found.extend((one.value() or b"").decode() for one in consumer.consume(100, 0.1) if one.error() is None)
            return len(found) >= count

        until(is_done, f"{count} records", 30)
        return found


class Load:
    """A producer that writes on and on; `errors` are those that reached its user."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[object] = []
        self.slowest_s = 0.0
        self.count = 0
        self._bootstrap, self._topic = bootstrap, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0, "message.timeout.ms": 10_000})
        while not self._is_over.is_set():
            began = time.monotonic()
            producer.produce(
                self._topic, "x", on_delivery=lambda error, _: self.errors.append(error) if error else None
            )
            producer.flush(60)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.count += 1
            time.sleep(0.01)


class Wire:
    """Forwards TCP to ZooKeeper until it is cut: then nothing answers, and no connection opens."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pairs: list[socket.socket] = []
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True

    def mend(self) -> None:
        """Let connections open again; the ones before are dead."""
        for one in self._pairs:
            with suppress(OSError):
                one.close()
        self._pairs, self.is_cut = [], False

    def close(self) -> None:
        self._listener.close()
        self.mend()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._pairs.append(client)
                if not self.is_cut:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:  # the server is down
            client.close()
            return
        self._pairs.append(server)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.is_cut:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)


# Starts and restarts


def test_a_start_registers_the_broker(zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    connect = at(zookeeper)
    start(broker, connect)
    with reader(connect) as client:
        registered = value(client, "/brokers/ids/0")
        assert (registered["host"], registered["port"], registered["version"]) == ("127.0.0.1", broker.port, 5)
        assert value(client, "/controller")["brokerid"] == 0
        assert client.get("/controller_epoch")[0] == b"1"
        create_topics(broker.bootstrap, {"t": {"retention.ms": "5000000"}}, 2)
        assert value(client, "/brokers/topics/t")["partitions"] == {"0": [0], "1": [0]}
        assert value(client, "/config/topics/t")["config"] == {"retention.ms": "5000000"}
        broker.stop()
        assert client.get_children("/brokers/ids") == []
        assert client.exists("/controller") is None


def test_a_restart_after_sigkill_waits_for_nothing(
    zookeeper: ZooKeeper, broker: HeadgateBroker, figure: Callable[[str], None]
) -> None:
    """The session of the killed process lives on; its nodes are replaced."""
    connect = at(zookeeper)
    start(broker, connect, LONG_SESSION_MS)
    create_topics(broker.bootstrap, {"t": {}}, 2)
    send(broker.bootstrap, "t", ["a", "b", "c"], is_idempotent=False)
    seconds = []
    for _ in range(2):
        broker.kill()
        seconds.append(broker.start())
    figure(f"zookeeper: ready after SIGKILL with a session of 30 s: {max(seconds):.2f} s")
    assert max(seconds) < 8
    assert sorted(consume(broker.bootstrap, "t", 3)) == ["a", "b", "c"]
    assert leader_epochs(connect, "t") == [2, 2]
    assert any("earlier process" in line for line in broker.error_lines())


def test_without_zookeeper_connect_the_directory_is_refused(
    zookeeper: ZooKeeper, broker: HeadgateBroker, tmp_path: Path
) -> None:
    start(broker, at(zookeeper))
    create_topics(broker.bootstrap, {"t": {}})
    broker.stop()
    assert "if ZooKeeper knows them, set zookeeper.connect" in refusal(tmp_path, {"log.dirs": str(broker.data)})


# Refusals


def test_the_same_id(zookeeper: ZooKeeper, broker: HeadgateBroker, tmp_path: Path) -> None:
    connect = at(zookeeper)
    start(broker, connect)
    text = refusal(tmp_path / "second", {"zookeeper.connect": connect})
    assert (
        f"node.id=0 is in use in ZooKeeper at {connect} by PLAINTEXT://{broker.bootstrap}, process {broker.pid} on"
        in text
    )
    assert "since 20" in text


def test_another_id(zookeeper: ZooKeeper, broker: HeadgateBroker, tmp_path: Path) -> None:
    connect = at(zookeeper)
    start(broker, connect)
    other = HeadgateBroker(tmp_path / "second", {"node.id": "1"})
    try:
        start(other, connect)
        with reader(connect) as client:
            assert sorted(client.get_children("/brokers/ids")) == ["0", "1"]
            assert value(client, "/controller")["brokerid"] == 0
    finally:
        other.kill()


def test_a_wrong_chroot(zookeeper: ZooKeeper, broker: HeadgateBroker, tmp_path: Path) -> None:
    start(broker, at(zookeeper))
    create_topics(broker.bootstrap, {"t": {}}, 3)
    broker.stop()
    wrong = at(zookeeper)
    text = refusal(tmp_path, {"zookeeper.connect": wrong, "log.dirs": str(broker.data)})
    assert f"ZooKeeper at {wrong} has no cluster, but {broker.data} holds 3 partitions of cluster" in text
    other = HeadgateBroker(tmp_path / "other")
    start(other, wrong)
    other.stop()
    text = refusal(tmp_path, {"zookeeper.connect": wrong, "log.dirs": str(broker.data)})
    assert "doesn't match stored clusterId" in text
    assert "may have the wrong address or the wrong chroot" in text


def test_nothing_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    began = time.monotonic()
    text = refusal(tmp_path, {"zookeeper.connect": f"127.0.0.1:{port}", **SHORT_WAIT})
    assert f"ZooKeeper at 127.0.0.1:{port} did not answer within 2 s; start ZooKeeper, correct" in text
    assert time.monotonic() - began < 8


def test_a_server_that_answers_nothing(own_zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = refusal(tmp_path, {"zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}", **SHORT_WAIT})
        assert "did not answer within 2 s" in text
    assert own_zookeeper.process is not None
    own_zookeeper.process.send_signal(signal.SIGSTOP)
    assert "did not answer within 2 s" in refusal(tmp_path, {"zookeeper.connect": own_zookeeper.connect, **SHORT_WAIT})
    own_zookeeper.process.send_signal(signal.SIGCONT)


def test_an_address_that_nobody_can_connect_to(tmp_path: Path) -> None:
    broker = HeadgateBroker(tmp_path, {"zookeeper.connect": "127.0.0.1:1", "listeners": "PLAINTEXT://0.0.0.0:9092"})
    result = subprocess.run(broker.command(), check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "set advertised.listeners=PLAINTEXT://<name or address>:9092" in result.stderr


# ZooKeeper goes, and comes back


def is_registered(connect: str, port: int) -> bool:
    with suppress(Exception), reader(connect) as client:
        return bool(value(client, "/brokers/ids/0")["port"] == port)
    return False


def check_alive(broker: HeadgateBroker, connect: str, topic: str) -> None:
    """The broker is registered, and its metadata can be changed."""
    until(lambda: is_registered(connect, broker.port), "the registration", 30, 0.1)
    create_topics(broker.bootstrap, {topic: {}})


def test_zookeeper_is_killed_and_started(own_zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    connect = at(own_zookeeper)
    start(broker, connect, SESSION_MS)
    create_topics(broker.bootstrap, {"t": {}})
    with Load(broker.bootstrap, "t") as load:
        own_zookeeper.stop()
        time.sleep(1.5 * SESSION_MS / 1000)
        own_zookeeper.start()
        check_alive(broker, connect, "u")
    assert not load.errors
    assert load.slowest_s < 1
    assert len(consume(broker.bootstrap, "t", load.count)) == load.count


def test_zookeeper_hangs_for_longer_than_the_session(own_zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    connect = at(own_zookeeper)
    start(broker, connect, SESSION_MS)
    create_topics(broker.bootstrap, {"t": {}})
    assert own_zookeeper.process is not None
    with Load(broker.bootstrap, "t") as load:
        own_zookeeper.process.send_signal(signal.SIGSTOP)
        time.sleep(3 * SESSION_MS / 1000)
        own_zookeeper.process.send_signal(signal.SIGCONT)
        check_alive(broker, connect, "u")
    assert not load.errors
    assert load.slowest_s < 1


def test_a_broker_cut_off_for_longer_than_the_session(own_zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    """ZooKeeper ends the session and deletes the registration; both come back by themselves, with the next epochs."""
    connect = at(own_zookeeper)
    chroot = connect.partition("/")[2]
    wire = Wire(own_zookeeper.port)
    with closing(wire):
        start(broker, f"127.0.0.1:{wire.port}/{chroot}", SESSION_MS)
        create_topics(broker.bootstrap, {"t": {}}, 2)
        with Load(broker.bootstrap, "t") as load:
            wire.cut()
            with reader(connect) as client:
                until(lambda: not client.get_children("/brokers/ids"), "the end of the session", 30, 0.1)
                time.sleep(2.5 * SESSION_MS / 1000)
                wire.mend()
                until(lambda: client.get_children("/brokers/ids") == ["0"], "the registration", 30, 0.1)
                until(lambda: client.get("/controller_epoch")[0] == b"2", "the next controller", 30, 0.1)
            check_alive(broker, connect, "u")
        assert not load.errors
        assert load.slowest_s < 1
        assert any("clients are served, and what needs ZooKeeper waits" in line for line in broker.error_lines())
        broker.stop()


def test_a_stop_without_zookeeper(own_zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    start(broker, at(own_zookeeper), SESSION_MS)
    create_topics(broker.bootstrap, {"t": {}})
    own_zookeeper.stop()
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 10
    own_zookeeper.start()
    broker.start()
    assert consume_nothing_but_start(broker)


def consume_nothing_but_start(broker: HeadgateBroker) -> bool:
    send(broker.bootstrap, "t", ["a"], is_idempotent=False)
    return consume(broker.bootstrap, "t", 1) == ["a"]


def test_a_deleted_registration_comes_back(zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    connect = at(zookeeper)
    start(broker, connect)
    with reader(connect) as client:
        client.delete("/brokers/ids/0")
        until(lambda: client.exists("/brokers/ids/0") is not None, "the registration")
        client.delete("/controller")
        until(lambda: client.exists("/controller") is not None, "the controller")
        assert client.get("/controller_epoch")[0] == b"2"
    create_topics(broker.bootstrap, {"t": {}})
