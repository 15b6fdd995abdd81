"""The command line: which command is called, with what, and what is said when it cannot be."""

import errno
import json
import os
import socket
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

import headgate
from headgate.gateway.app import cli, composition
from headgate.gateway.config import BrokerConfig
from headgate.gateway.network.addresses import AddressError
from headgate.gateway.zookeeper import metadata_command
from headgate.storage.errors import DirectoryLocked, StorageError

Served = list[BrokerConfig]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """What the broker would have been started with."""
    configs: Served = []
    replace_broker(monkeypatch, lambda config, *_: configs.append(config))
    return configs


def replace_broker(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., None]) -> None:
    module = ModuleType("headgate.gateway.app.broker")
    module.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headgate.gateway.app.broker", module)
    monkeypatch.setattr("headgate.gateway.app.broker", module, raising=False)
    monkeypatch.setattr("headgate.gateway.runtime.log_output.configure", lambda level, form: None)
    monkeypatch.setattr("headgate.gateway.runtime.descriptors.raise_limit", lambda: 1 << 20)


def test_too_low_a_limit_on_open_files_is_told(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headgate.gateway.runtime.descriptors.raise_limit", lambda: 1024)
    assert cli.main(["serve", "--override", "max.connections=5000"]) == 0
    assert len(served) == 1
    assert "448 connections beside its logs; raise the limit to 9160 for 5000" in caplog.text


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in cli.COMMANDS)


def test_without_a_command_help_is_shown_and_it_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: headgate <command>" in capsys.readouterr().out


def test_output_that_cannot_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is short is written at the end, and what could not be written is not tried again at the exit."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["config", "--override", "node.id=1"]) == 1
    assert capsys.readouterr().err == "headgate: cannot write to the standard output: No space left on device\n"


def test_a_closed_output_is_none(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["log", "ls", "nowhere"]) == 2
    assert cli.main(["serve"]) == 0
    sys.stdout.close()


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    project = tomllib.loads((Path(headgate.__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out == f"headgate {project['version']}\n"


def test_an_unknown_command_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sevre"]) == 2
    assert (
        capsys.readouterr().err
        == "headgate: there is no command 'sevre', the nearest is serve; `headgate help` lists them\n"
    )


def test_serve_takes_a_file_and_overrides_as_kafkas_start_script(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nbroker.rack=K\u00f6ln\n", encoding="utf-8")
    override = [
        "--override",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "--override",
        "broker.id=7",
        "--override",
        "node.id=7",
    ]
    assert cli.main(["serve", str(file), *override]) == 0
    assert (served[0].num_partitions, served[0].node_id, served[0].broker_rack) == (3, 7, "K\u00f6ln")
    assert served[0].listeners[0].port == 0


def test_a_file_in_latin_1_is_read_as_java_reads_it(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("broker.rack=K\u00f6ln".encode("latin-1"))
    assert cli.main(["serve", str(file)]) == 0
    assert served[0].broker_rack == "K\u00f6ln"


def test_every_problem_of_a_configuration_is_told(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitons=3\nnum.partitions=x\n")
    assert cli.main(["serve", str(file)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"headgate: {file} line 1: unknown setting 'num.partitons': the nearest name is num.partitions"
    assert second.startswith(f"headgate: {file} line 2: num.partitions=x: allowed is a whole number")
    assert not served


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["serve", "/nowhere/server.properties"], "cannot read /nowhere/server.properties: No such file or directory"),
        (["serve", "--override", "num.partitions"], "override num.partitions: there is no '='"),
        (["config", "--override", "a=b"], "override: unknown setting 'a'"),
    ],
)
def test_misuse(arguments: list[str], sentence: str, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"headgate: {sentence}")


def test_config_answers_every_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nnum.io.threads=3\nssl.key.password=hush\n")
    assert cli.main(["config", str(file)]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"{file} line 1: num.partitions=3"
    assert second.startswith(f"{file} line 2: num.io.threads: accepted, no effect here, because one loop")
    assert "hush" not in third


def test_config_says_so_where_nothing_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    assert capsys.readouterr() == ("", "headgate: nothing is set, so that everything has its default\n")


def test_what_has_no_effect_is_logged_at_start(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    pending = "transaction.two.phase.commit.enable=true"
    assert cli.main(["serve", "--override", "num.io.threads=3", "--override", pending]) == 0
    assert [(record.levelname, record.name) for record in caplog.records] == [
        ("INFO", "headgate.config"),
        ("WARNING", "headgate.config"),
    ]


@pytest.mark.parametrize(
    "error, sentence",
    [
        (
            OSError(errno.EADDRINUSE, "in use"),
            "cannot listen on 127.0.0.1:9092: another process does already; stop it,",
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "not there"),
            "cannot listen on 127.0.0.1:9092: this machine has no such",
        ),
        (PermissionError(errno.EACCES, "Permission denied"), "cannot listen on 127.0.0.1:9092: this user may not,"),
        (
            AddressError(OSError(errno.EADDRINUSE, "in use"), "http://127.0.0.1:9644", "headgate.http.listeners"),
            "cannot listen on http://127.0.0.1:9644: another process does already; stop it, or set other h",
        ),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "cannot listen on 127.0.0.1:9092: Name or service not known; set other listeners",
        ),
        (
            ExceptionGroup("", [ExceptionGroup("", [PermissionError(13, "Permission denied", "/data")])]),
            "cannot use /data: Permission denied; log.dirs has to be a directory that this user can write to",
        ),
        (
            OSError(errno.ENOSPC, "No space", "data/x"),
            "the broker did not start: no space is left in log.dirs=data; free",
        ),
        (OSError(errno.EIO, "I/O error", "/data/x"), "the broker did not start: [Errno 5] I/O error: '/data/x'"),
        (OSError(errno.EIO, "I/O error"), "the broker did not start: [Errno 5] I/O error"),
        (DirectoryLocked("data", 42), "the data directory data is in use by process 42;"),
        (StorageError("it is damaged"), "the broker did not start: it is damaged"),
    ],
)
def test_why_a_broker_does_not_start(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(config: BrokerConfig, started: Callable[[], None], addresses: object, service: object) -> None:
        raise error

    replace_broker(monkeypatch, serve)
    assert cli.main(["serve"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"headgate: {sentence}")


def test_what_ends_a_broker_that_had_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(config: BrokerConfig, started: Callable[[], None], addresses: object, service: object) -> None:
        started()
        raise StorageError("its log is gone")

    replace_broker(monkeypatch, serve)
    assert cli.main(["serve"]) == 1
    assert capsys.readouterr().err == "headgate: the broker stopped: its log is gone\n"


def test_our_own_mistakes_are_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(config: BrokerConfig, started: Callable[[], None], addresses: object, service: object) -> None:
        raise ExceptionGroup("", [ZeroDivisionError("a bug")])

    replace_broker(monkeypatch, serve)
    with pytest.raises(ZeroDivisionError):
        cli.main(["serve"])


@pytest.mark.sockets
@pytest.mark.slow
def test_the_command_line_and_the_configuration_import_nothing_heavy() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import headgate.gateway.app.cli, headgate.gateway.config;"
        " print(*sys.modules)"
    )
    root = str(Path(headgate.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-I", "-c", program, root], capture_output=True, text=True, check=True)
    heavy = {
        "trio",
        "construct",
        "argparse",
        "dataclasses",
        "logging",
        "socket",
        "ssl",
        "inspect",
        "importlib.metadata",
        "json",
    }
    assert not heavy & set(ran.stdout.split())


@pytest.mark.parametrize("named, expected", [([], 7), (["node.id=2"], 2), (["broker.id=3"], 3)])
def test_a_directory_says_which_node_it_is_of(served: Served, tmp_path: Path, named: list[str], expected: int) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=abc\n")
    overrides = [word for one in (f"log.dirs={tmp_path}", *named) for word in ("--override", one)]
    assert cli.main(["serve", *overrides]) == 0
    assert [config.node_id for config in served] == [expected]


def a_log(directory: Path) -> None:
    """A partition's directory: what has no segment is not taken for one."""
    directory.mkdir()
    (directory / "00000000000000000000.log").touch()


@pytest.mark.sockets
def test_adoption_comes_before_the_broker(served: Served, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=abc\n")
    a_log(tmp_path / "t-0")
    settings = ["--override", f"log.dirs={tmp_path}", "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    assert cli.main(["serve", "--adopt", *settings]) == 0
    assert (tmp_path / "__headgate_metadata-0").is_dir()
    assert [config.node_id for config in served] == [7]


def test_a_failed_adoption_starts_no_broker(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_log(tmp_path / "t-0")
    assert cli.main(["serve", "--adopt", "--override", f"log.dirs={tmp_path}"]) == 1
    assert "meta.properties" in capsys.readouterr().err
    assert not served


def test_nothing_is_adopted_with_zookeeper(served: Served, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=abc\n")
    a_log(tmp_path / "t-0")
    settings = ["--override", f"log.dirs={tmp_path}", "--override", "zookeeper.connect=zk"]
    assert cli.main(["serve", "--adopt", *settings]) == 0
    assert not (tmp_path / "__headgate_metadata-0").exists()
    assert [config.node_id for config in served] == [7]


def test_metadata_need_a_zookeeper(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["metadata", "to-zookeeper"]) == 2
    assert "metadata needs zookeeper.connect: set it in the file, or by --override" in capsys.readouterr().err


class Connection:
    """A connection to ZooKeeper that is closed so often."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def serve_transfers(patch: pytest.MonkeyPatch, transfer: Callable[..., list[str]]) -> Connection:
    """`transfer` gets the direction, and what the function of that direction gets."""
    connection = Connection()
    patch.setattr(composition, "connect", lambda *_: connection)
    patch.setattr(metadata_command, "to_zookeeper", partial(transfer, "to-zookeeper"))
    patch.setattr(metadata_command, "to_embedded", partial(transfer, "to-embedded"))
    return connection


@pytest.mark.parametrize("direction", ["to-zookeeper", "to-embedded"])
def test_metadata_are_carried_or_only_looked_at(
    direction: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, bool]] = []

    def transfer(direction: str, _: BrokerConfig, __: Connection, ___: object, *, execute: bool) -> list[str]:
        asked.append((direction, execute))
        return ["t: 1 partitions"]

    connection = serve_transfers(monkeypatch, transfer)
    overrides = ["--override", "zookeeper.connect=zk", "--override", "listeners=PLAINTEXT://h:9092"]
    assert cli.main(["metadata", direction, *overrides]) == 0
    assert cli.main(["metadata", direction, *overrides, "--execute"]) == 0
    assert asked == [(direction, False), (direction, True)]
    assert connection.closed == 2
    shown = capsys.readouterr()
    assert shown.out == "t: 1 partitions\n" * 2
    assert shown.err == "headgate: this was a dry run, nothing is changed; --execute does it\n"


def test_metadata_that_cannot_be_carried_say_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def transfer(*_: object, **__: object) -> list[str]:
        raise StorageError("ZooKeeper has topic t of its own")

    connection = serve_transfers(monkeypatch, transfer)
    overrides = ["--override", "zookeeper.connect=zk", "--override", "listeners=PLAINTEXT://h:9092"]
    assert cli.main(["metadata", "to-zookeeper", *overrides]) == 1
    assert "the metadata were not carried: ZooKeeper has topic t of its own" in capsys.readouterr().err
    assert connection.closed == 1


@pytest.mark.parametrize(
    "text, overrides, form",
    [
        ("", [], "text"),
        ("headgate.log.format = json\nlistenrs=x", [], "json"),
        ("headgate.log.format=json\n", ["headgate.log.format=text"], "text"),
        ("#headgate.log.format=json\n", ["node.id=1"], "text"),
    ],
)
def test_the_form_of_log_lines_is_known_before_the_settings(
    text: str, overrides: list[str], form: str, tmp_path: Path
) -> None:
    (tmp_path / "server.properties").write_text(text)
    options = Namespace(properties=str(tmp_path / "server.properties"), override=overrides)
    assert cli.likely_format(options) == form
    options.properties = str(tmp_path / "missing")
    assert cli.likely_format(options) == "text"


@pytest.mark.slow
@pytest.mark.sockets
def test_a_refused_setting_is_a_line_of_json(tmp_path: Path) -> None:
    overrides = ["--override", "headgate.log.format=json", "--override", "listenrs=x"]
    command = [sys.executable, "-m", "headgate", "serve", *overrides]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    [line] = map(json.loads, ended.stderr.splitlines())
    assert (ended.returncode, line["level"], line["logger"]) == (2, "ERROR", "headgate")
    assert "unknown setting 'listenrs'" in line["message"]


def test_a_broker_of_a_program_has_no_service_manager(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may have one, which waits for the program."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/notify")
    monkeypatch.setattr("threading.Thread.start", lambda _: None)  # the one that waits for the parent
    assert cli.main(["serve", "--exit-with-parent"]) == 0
    assert "NOTIFY_SOCKET" in os.environ
    assert cli.main(["serve"]) == 0
    assert "NOTIFY_SOCKET" not in os.environ


def test_passed_sockets_that_are_none_prevent_a_start(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "many")
    assert cli.main(["serve"]) == 2
    assert "LISTEN_FDS='many', which is no number" in capsys.readouterr().err
    assert not served
