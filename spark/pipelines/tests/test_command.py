"""Wrong arguments end before a session or a connection opens."""

from __future__ import annotations

import pytest

from headgate.spark.pipelines import command

DEAD = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    "run,arguments,said",
    [
        (command.mirror, ["--name", "m"], "name topics"),
        (command.mirror, ["t", "--pattern", "x", "--name", "m"], "name topics"),
        (command.replay, ["t", "u"], "--name"),
        (command.replay, ["t", "u", "--name", "r", "--batch", "0"], "whole number above 0"),
        (command.mirror_groups, ["--name", "m"], "group"),
    ],
)
def test_wrong_arguments(run: object, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(arguments)  # type: ignore[operator]
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("begin", ["12", "latest", "yesterday"])
def test_a_wrong_time(begin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.replay(["t", "u", "--name", "r", "--from", begin, *DEAD]) == 1
    assert begin in capsys.readouterr().err


def test_a_replay_into_itself_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.replay(["t", "t", "--name", "r", *DEAD]) == 1
    assert "without an end" in capsys.readouterr().err


@pytest.mark.sockets
def test_no_broker_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.mirror(["t", "--name", "m", *DEAD]) == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err
