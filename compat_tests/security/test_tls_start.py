"""A broker whose stores cannot be used does not start, says why in one sentence, and writes nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.security.client_security import PASSWORD, make_certificates

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the command is Headgate's")
JKS_MAGIC: Final = bytes.fromhex("feedfeed00000002")
EXPIRED: Final = """
import sys
from pathlib import Path
from headgate.protocol.security.tls.tests.certificates import Authority
Path(sys.argv[1]).write_text(Authority().issue("broker", days=(-9, -1)).pem())
"""


def pem(path: Path | str) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def pkcs12(path: Path | str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": password,
    }


def missing(files: Path) -> dict[str, str]:
    return pem(files / "nothing.pem")


def wrong_password(files: Path) -> dict[str, str]:
    return pkcs12(files / "broker.p12", "guessed")


def another_key(files: Path) -> dict[str, str]:
    path = files / "mixed.pem"
    path.write_text((files / "client.key.pem").read_text() + (files / "broker.chain.pem").read_text())
    return pem(path)


def expired(files: Path) -> dict[str, str]:
    path = files / "expired.pem"
    run([*python(), "-c", EXPIRED, str(path)])
    return pem(path)


def java_store(files: Path) -> dict[str, str]:
    path = files / "broker.jks"
    path.write_bytes(JKS_MAGIC + bytes(100))
    return {**pkcs12(path), "ssl.keystore.type": "JKS"}


def java_store_as_pkcs12(files: Path) -> dict[str, str]:
    return {**java_store(files), "ssl.keystore.type": "PKCS12"}


def no_store(_: Path) -> dict[str, str]:
    return {}


CASES: Final[dict[Callable[[Path], Mapping[str, str]], str]] = {
    missing: "nothing.pem: there is no such file",
    wrong_password: "ssl.keystore.password",
    another_key: "the private key does not fit the certificate",
    expired: "the certificate CN=broker expired on ",
    java_store: "keytool -importkeystore",
    java_store_as_pkcs12: "keytool -importkeystore",
    no_store: "there is no key store; set ssl.keystore.location",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"), "broker", "client")


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_stores_that_cannot_be_used_refuse_the_start(
    tmp_path: Path, files: Path, case: Callable[[Path], Mapping[str, str]]
) -> None:
    data = tmp_path / "data"
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL", "log.dirs": str(data)}
    settings["headgate.http.listeners"] = ""
    wanted = {**settings, **case(files)}
    overrides = [word for name, value in wanted.items() for word in ("--override", f"{name}={value}")]
    done = subprocess.run(
        [*installed_command(), "serve", *overrides], capture_output=True, text=True, timeout=30, check=False
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("headgate: ")]
    assert done.returncode in (1, 2), done
    assert done.stdout == ""
    assert len(said) == 1, done.stderr
    assert CASES[case] in said[0]
    assert "SSL" in said[0], "the sentence names the listener"
    assert "guessed" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not data.exists(), "something was written"


def python() -> list[str]:
    import sys

    return [sys.executable]


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=60)
