"""The unit files of `headgate service`, as systemd reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.broker import installed_command

SETTINGS = """
listeners=PLAINTEXT://:9092,SSL://192.0.2.1:9093
log.dirs=/var/lib/headgate,/srv
ssl.keystore.type=PEM
ssl.keystore.location=/etc/headgate/broker.pem
"""
# systemd's own measure, from 0 (confined) to 10; a unit without confinement has 9.6
MOST_EXPOSED = 2.0


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    properties = tmp_path / "server.properties"
    properties.write_text(SETTINGS)
    units = [tmp_path / "headgate.service", tmp_path / "headgate.socket"]
    for unit, words in zip(units, (["unit", "--socket"], ["socket"]), strict=True):
        command = [*installed_command(), "service", words[0], str(properties), *words[1:]]
        unit.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return units


def systemd_analyze(*words: str) -> str:
    """What it says; a unit without a fault makes it say nothing."""
    program = toolchain.program("systemd-analyze", "install systemd")
    ended = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return f"{ended.stdout}{ended.stderr}" + (f"exit {ended.returncode}" if ended.returncode else "")


def test_systemd_finds_no_fault_in_the_units(units: list[Path]) -> None:
    assert systemd_analyze("verify", *map(str, units)) == ""
    units[0].write_text(units[0].read_text().replace("WatchdogSec=", "WatchdogSecs="))
    assert "'WatchdogSecs' in section [Service]" in systemd_analyze("verify", str(units[0])), "it would find one"


def test_the_service_is_confined(units: list[Path]) -> None:
    shown = systemd_analyze("security", "--offline=true", "--no-pager", str(units[0]))
    assert float(shown.rpartition("exposure level for headgate.service: ")[2].split()[0]) < MOST_EXPOSED


def test_the_command_is_that_of_this_installation(units: list[Path]) -> None:
    [line] = [line for line in units[0].read_text().splitlines() if line.startswith("ExecStart=")]
    program = line.partition("=")[2].split()[0]
    assert shutil.which(program) == program
