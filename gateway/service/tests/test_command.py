"""`headgate service`: units from the settings of a broker, and settings that no unit can have."""

from pathlib import Path

import pytest

from headgate.gateway.service import command


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "listeners=PLAINTEXT://:9092\nlog.dirs=/var/lib/headgate\nheadgate.audit.log=/var/log/headgate/audit.jsonl\n"
    )
    return path


def test_a_unit_fits_the_settings(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["unit", str(properties), "--user", "kafka", "--name", "kafka"]) == 0
    text = capsys.readouterr().out
    assert f" serve {properties}\n" in text
    assert "\nUser=kafka\n" in text
    assert "\nStateDirectory=headgate\nReadWritePaths=/var/log/headgate\n" in text
    assert "/etc/systemd/system/kafka.service" in text
    assert "Requires=" not in text
    assert command.main(["unit", str(properties), "--socket"]) == 0
    assert "\nRequires=headgate.socket\n" in capsys.readouterr().out


def test_a_socket_unit_has_all_addresses(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["socket", str(properties)]) == 0
    assert "\nListenStream=9092\nListenStream=127.0.0.1:9644\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kind, text, problem",
    [
        ("unit", "log.dirs=data", "log.dirs=data: a service needs absolute paths"),
        (
            "socket",
            "listeners=A://localhost:9092\nlog.dirs=/d\nlistener.security.protocol.map=A:PLAINTEXT",
            "is a name",
        ),
        ("socket", "listeners=PLAINTEXT://:0\nlog.dirs=/d", "port 0 is another one"),
        ("unit", "listenrs=x", "unknown setting 'listenrs'"),
        ("unit", None, "cannot read"),
    ],
)
def test_settings_that_no_unit_can_have(
    kind: str, text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    if text is not None:
        path.write_text(text)
    assert command.main([kind, str(path)]) == 2
    output = capsys.readouterr()
    assert (output.out, problem in output.err) == ("", True), output.err
