"""The console's listener: a process at the first visit, another after its end, none left at the end of the broker."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.console import console_listener
from headgate.gateway.console.console_listener import ConsoleCommand, ConsoleListener, check_files, make_command

SERVES = """
import os, socket, sys
listening = socket.socket(fileno=int(sys.argv[sys.argv.index("--descriptor") + 1]))
listening.setblocking(True)
print("headgate console ready http://x", flush=True)
visitor, _ = listening.accept()
visitor.recv(1000)
if "--command-config" in sys.argv:
    visitor.sendall(open(sys.argv[sys.argv.index("--command-config") + 1], "rb").read())
visitor.sendall(str(os.getpid()).encode())
visitor.close()
sys.exit(3)
"""
STAYS = SERVES.replace("sys.exit(3)", "sys.stdin.read()")
LARGER_THAN_A_PIPE = "a=b\n" + "# a trust store\n" * 10_000
LOGS = "import sys; [print(line, file=sys.stderr) for line in {lines!r}]; sys.exit(1)"
FAILS = "import sys; print('no such module', file=sys.stderr); sys.exit(1)"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


def use(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(console_listener, "command_of", lambda *words: [sys.executable, "-c", program, *words])


async def visit(listening: socket.socket) -> bytes:
    with trio.fail_after(60):
        stream = await trio.open_tcp_stream(*listening.getsockname()[:2])
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        async with stream:
            return b"".join([data async for data in stream])


@pytest.mark.sockets
def test_each_end_is_followed_by_another_process(
    monkeypatch: pytest.MonkeyPatch, listening: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, SERVES)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            listener = ConsoleListener([listening], ConsoleCommand(["--x"], LARGER_THAN_A_PIPE))
            nursery.start_soon(listener.serve)
            await trio.lowlevel.checkpoint()
            assert listener.pid is None, "nothing runs before a visit"
            first, second = await visit(listening), await visit(listening)
            assert first.startswith(LARGER_THAN_A_PIPE.encode())
            assert first != second
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.INFO):
        trio.run(run)
    assert "the console has ended (with code 3); the next visit starts another" in caplog.text


@pytest.mark.sockets
def test_the_process_ends_with_the_broker(monkeypatch: pytest.MonkeyPatch, listening: socket.socket) -> None:
    use(monkeypatch, STAYS)

    async def run() -> int:
        async with trio.open_nursery() as nursery:
            listener = ConsoleListener([listening], ConsoleCommand([]))
            nursery.start_soon(listener.serve)
            pid = int(await visit(listening))
            assert pid == listener.pid
            nursery.cancel_scope.cancel()
        return pid

    pid = trio.run(run)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.sockets
def test_visitors_of_a_console_that_cannot_start_get_a_sentence(
    monkeypatch: pytest.MonkeyPatch, listening: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, FAILS)
    monkeypatch.setattr(console_listener, "PAUSE_S", 0.0)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ConsoleListener([listening], ConsoleCommand([])).serve)
            for _ in range(2):
                assert (await visit(listening)).startswith(b"HTTP/1.1 503 ")
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert "no such module" in caplog.text
    assert "the console did not start; the next visit tries again" in caplog.text


@pytest.mark.sockets
def test_an_interpreter_that_is_gone_is_one_line(
    monkeypatch: pytest.MonkeyPatch, listening: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(console_listener, "command_of", lambda *words: ["/nowhere/python"])

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ConsoleListener([listening], ConsoleCommand([])).serve)
            assert (await visit(listening)).startswith(b"HTTP/1.1 503 ")
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert "cannot start the console" in caplog.text


@pytest.mark.parametrize(
    "endpoints, bootstrap, protocol",
    [
        (["PLAINTEXT://0.0.0.0:9092"], "127.0.0.1:9092", ""),
        (["PLAINTEXT://[::]:9092"], "127.0.0.1:9092", ""),
        (["PLAINTEXT://[::1]:9092"], "[::1]:9092", ""),
        (["SSL://h:1", "SASL_SSL://h:2"], "h:2", "SASL_SSL"),
        (["SASL_SSL://h:1", "SASL_PLAINTEXT://h:2"], "h:2", "SASL_PLAINTEXT"),
    ],
)
def test_the_console_takes_the_simplest_listener(endpoints: list[str], bootstrap: str, protocol: str) -> None:
    config = BrokerConfig.load("ssl.truststore.location=/a\\\\b\nssl.truststore.type=PEM\n")
    command = make_command(config, endpoints, ["https://0.0.0.0:9645", "http://127.0.0.1:9644"])
    assert list(command.arguments) == ["--bootstrap-server", bootstrap, "--http", "http://127.0.0.1:9644"]
    assert command.properties.startswith(f"security.protocol={protocol}\n") == bool(protocol)
    assert ("ssl.truststore.location=/a\\\\b\n" in command.properties) == protocol.endswith("SSL")


def test_the_console_writes_if_the_setting_says_so() -> None:
    config = BrokerConfig.load("headgate.console.write=true\n")
    assert list(make_command(config, ["PLAINTEXT://h:1"], []).arguments) == ["--bootstrap-server", "h:1", "--write"]


def test_the_console_asks_other_brokers_of_this_machine() -> None:
    config = BrokerConfig.load("headgate.console.http=http://127.0.0.1:9645,http://127.0.0.1:9646\n")
    command = make_command(config, ["PLAINTEXT://h:1"], ["http://127.0.0.1:9644"])
    assert command.arguments[-1] == "http://127.0.0.1:9644,http://127.0.0.1:9645,http://127.0.0.1:9646"


def test_the_console_has_the_schemas_of_the_settings(tmp_path: Path) -> None:
    descriptors = tmp_path / "types.bin"
    descriptors.touch()
    schemas = f"headgate.console.schemas={tmp_path}\nheadgate.console.descriptor.set={descriptors}\n"
    config = BrokerConfig.load(schemas)
    check_files(config)
    given = ["--schemas", str(tmp_path), "--descriptor-set", str(descriptors)]
    assert list(make_command(config, ["PLAINTEXT://h:1"], []).arguments) == ["--bootstrap-server", "h:1", *given]


def test_missing_files_of_the_console_are_refused() -> None:
    check_files(BrokerConfig.load("headgate.console.schemas=http://registry:8081\n"))
    config = BrokerConfig.load("headgate.console.schemas=/nowhere\nheadgate.console.descriptor.set=/nowhere.bin\n")
    with pytest.raises(ConfigError) as refused:
        check_files(config)
    folder, file = refused.value.problems
    assert folder.startswith("headgate.console.schemas=/nowhere: there is no such folder")
    assert file.startswith("headgate.console.descriptor.set=/nowhere.bin: there is no such file")


def test_the_extra_is_installed_for_the_tests() -> None:
    assert console_listener.is_installed()


@pytest.mark.sockets
def test_lines_of_the_console_keep_their_level(
    monkeypatch: pytest.MonkeyPatch, listening: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["INFO headgate.console.changes: ann: Delete the topic a", "Traceback:", "INFO other: text"]
    use(monkeypatch, LOGS.format(lines=lines))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ConsoleListener([listening], ConsoleCommand([])).serve)
            await visit(listening)
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.INFO, "headgate.console"):
        trio.run(run)
    found = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelname != "ERROR"]
    assert found == [("INFO", "ann: Delete the topic a"), ("WARNING", lines[1]), ("WARNING", lines[2])]
