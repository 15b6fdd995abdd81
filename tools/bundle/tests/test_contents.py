from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.bundle import contents as module
from headgate.tools.bundle.archive import MAX_FILE_BYTES
from headgate.tools.bundle.contents import (
    Contents,
    client_settings,
    http_files,
    journal,
    log_file,
    rows_text,
    settings_text,
)
from headgate.tools.bundle.redaction import HIDDEN, Redaction
from headgate.tools.doctor.check_result import WRONG, CheckResult
from headgate.tools.doctor.inspection import SettingsReport
from headgate.tools.metrics import ReadError

REDACT = Redaction(["hunter2-XYZZY"])


def empty() -> Contents:
    return Contents([], [])


def test_rows_and_settings_are_texts() -> None:
    assert rows_text([CheckResult("a", WRONG, "hunter2-XYZZY is refused")], REDACT) == (
        '{"check": "a", "state": "wrong", "found": "[hidden] is refused", "cure": null}\n'
    )
    report = SettingsReport(["no"], [(True, "old")], [("a", "b")], [], None)
    assert settings_text(report) == "a=b\n# problem: no\n# old\n"


def test_settings_of_a_client_are_masked(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nssl.key.password=one\nsasl.jaas.config=a \\\n  two\n")
    text, secrets = client_settings(str(file))
    assert text == f"security.protocol=SASL_SSL\nssl.key.password={HIDDEN}\nsasl.jaas.config={HIDDEN}\n"
    assert secrets == ["one", "a two"]
    file.write_text("a=\\u00zz\n")
    assert client_settings(str(file))[1] == []


def test_a_log_ends_with_its_last_lines(tmp_path: Path) -> None:
    log, contents = tmp_path / "server.log", empty()
    log.write_bytes(b"hunter2-XYZZY first\n" + b"x" * 99 * 50_000 + b"\nlast hunter2-XYZZY line\n")
    log_file(str(log), REDACT, contents)
    [file] = contents.files
    assert file.name == "log-0.txt"
    assert len(file.data) <= MAX_FILE_BYTES
    assert file.data.endswith(b"last [hidden] line\n")
    assert b"XYZZY" not in file.data
    log_file(str(tmp_path / "none"), REDACT, contents)
    assert contents.left_out == [f"{tmp_path}/none: No such file or directory"]


def test_a_journal_that_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("subprocess.run", refuse)
    contents = empty()
    journal("headgate", REDACT, contents)
    assert contents.left_out == ["the journal of headgate: FileNotFoundError"]


def test_resources_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(host: str, port: int, *_: object, path: str, accepted: object) -> str:
        if path == "/v1/lag.json":
            raise ReadError("h:1 answers 404; is it?")
        return '{"a": "hunter2-XYZZY"}' if path.endswith("json") else f"{host}:{port} hunter2-XYZZY"

    monkeypatch.setattr(module, "read", read)
    contents = empty()
    http_files(["http://h:1"], 1.0, ClientSecurity(), REDACT, contents)
    files = {file.name: file.data for file in contents.files}
    assert files["http-0/metrics.txt"] == b"h:1 [hidden]"
    assert b'"a": "[hidden]"' in files["http-0/broker.json"]
    assert contents.left_out == ["http://h:1/v1/lag.json: h:1 answers 404; is it?"]


@pytest.mark.sockets
def test_a_broker_without_http_is_one_sentence() -> None:
    contents = empty()
    http_files(["http://127.0.0.1:1", "a:b:c"], 1.0, ClientSecurity(), REDACT, contents)
    assert (contents.files, len(contents.left_out)) == ([], 2)
