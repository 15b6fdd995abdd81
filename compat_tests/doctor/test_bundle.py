"""`headgate bundle` beside a broker with planted secrets: its archive has none of them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from compat_tests.doctor.secured import ADMIN, LOGIN, NOBODY, SecuredBroker
from compat_tests.harness.broker import TARGET, HeadgateBroker, installed_command
from compat_tests.harness.topics import create_topics
from compat_tests.harness.writing import send
from compat_tests.security.client_security import write_properties

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the bundle is one of Headgate")

MIB: Final = 1 << 20
RECORD: Final = b"a record of nobody's business"
PLANTED: Final = {
    "ssl.key.password": "planted-key-password",
    "ssl.truststore.password": "planted-trust-password",
    "delegation.token.secret.key": "planted-token-key",
    "ssl.keystore.pasword": "planted-under-a-misspelt-name",
}
LOGGED: Final = (
    "planted-of-a-url",
    "planted-bearer-0123456789",
    "planted-in-json",
    "planted-in-a-command",
)


def bundle(directory: Path, *arguments: str) -> dict[str, bytes]:
    output = directory / "bundle.tar.gz"
    output.unlink(missing_ok=True)
    command = [*installed_command(), "bundle", "--output", str(output), "--timeout", "3", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    with tarfile.open(output) as archive:
        files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_a_bundle_has_everything_but_secrets_and_records(secured: SecuredBroker, tmp_path: Path) -> None:
    create_topics(f"127.0.0.1:{secured.ports()['PLAINTEXT']}", {"orders": {}})
    settings = {**secured.settings, **PLANTED, "log.dirs": str(secured.data), "listeners": "PLAINTEXT://127.0.0.1:1"}
    server = write_properties(tmp_path / "server.properties", settings)
    log = tmp_path / "server.log"
    log.write_text(
        f"GET https://alice:{LOGGED[0]}@registry/x\nAuthorization: Bearer {LOGGED[1]}\n"
        f"{json.dumps({'client': {'password': LOGGED[2]}})}\nran kafka-x --password {LOGGED[3]}\nthe last line\n"
        f"{PLANTED['ssl.key.password']} is wrong\n"
    )
    files = bundle(
        tmp_path,
        server,
        "--bootstrap-server",
        secured.address(LOGIN),
        "--command-config",
        secured.config(login=ADMIN),
        "--log",
        str(log),
    )
    wanted = {"doctor.jsonl", "versions.json", "settings.txt", "client-settings.txt", "limits.txt", "directories.txt"}
    assert set(files) >= wanted | {"log-0.txt", "manifest.json", "README.txt"}
    everything = b"\n".join(files.values())
    for secret in (*PLANTED.values(), *LOGGED, ADMIN[1], NOBODY[1]):
        assert secret.encode() not in everything, secret
    assert b"the last line" in files["log-0.txt"]
    assert b"orders-0/" in files["directories.txt"]
    assert b"sasl.mechanism=PLAIN" in files["client-settings.txt"]
    assert all(json.loads(line)["check"] for line in files["doctor.jsonl"].splitlines())


def test_a_bundle_of_a_broker_with_http(plain: HeadgateBroker, tmp_path: Path) -> None:
    create_topics(plain.bootstrap, {"bundled": {}})
    send(plain.bootstrap, "bundled", [RECORD])
    files = bundle(tmp_path, "--bootstrap-server", plain.bootstrap)
    for name in ("readyz", "broker", "lag", "connections"):
        assert json.loads(files[f"http-0/{name}.json"]), name
    assert b"headgate_requests_total" in files["http-0/metrics.txt"]
    assert not any(RECORD in content for content in files.values())


def test_a_bundle_is_bounded(plain: HeadgateBroker, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"a line of the log\n" * 600_000)
    files = bundle(tmp_path, "--bootstrap-server", plain.bootstrap, "--log", str(log), "--max-mib", "1")
    assert sum(map(len, files.values())) < MIB + 10_000
    [left_out] = [text for text in json.loads(files["manifest.json"])["left_out"] if text.startswith("log-0")]
    assert "beyond the limit" in left_out
    assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600
