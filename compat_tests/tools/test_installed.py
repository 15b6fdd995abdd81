"""Headgate in somebody else's project, whose packages have the names of our folders: from a wheel, and editable."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka is not installed by Python")

ROOT = Path(__file__).parents[2]
FOLDERS = ("gateway", "protocol", "storage", "tools", "spark")
THEIRS = """
import socket

import gateway, protocol, spark, storage, tools
from headgate import Headgate

def test_our_packages_are_ours():
    assert [one.OURS for one in (gateway, protocol, spark, storage, tools)] == [True] * 5

def test_a_broker(headgate):
    assert isinstance(headgate, Headgate)
    host, port = headgate.bootstrap.split(":")
    socket.create_connection((host, int(port)), 5).close()
    assert headgate.topic(partitions=2)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with packages of its own, and tests that use the fixture `headgate`."""
    root = tmp_path / "project"
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text("OURS = True\n")
    (root / "test_theirs.py").write_text(THEIRS)
    return root


def ran(*command: str | Path, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed_from_a_wheel(place: Path) -> Path:
    """The interpreter of a new environment with Headgate's wheel in it; what Headgate needs comes from ours."""
    ran(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", place / "dist", cwd=ROOT)
    (wheel,) = (place / "dist").glob("*.whl")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    ran(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=place)
    packages = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_from_a_wheel(project: Path, tmp_path: Path) -> None:
    python = installed_from_a_wheel(tmp_path)
    where = ran(python, "-c", "import headgate.storage.log as one; print(one.__file__)", cwd=project)
    assert where.startswith(str(tmp_path / "venv")), "not the one that is being developed"
    assert "2 passed" in ran(python, "-m", "pytest", "-q", "-p", "no:randomly", cwd=project)
    assert ran(python.parent / "headgate", "--version", cwd=project).startswith("headgate ")
    assert ran(python, "-m", "headgate", "--version", cwd=project).startswith("headgate ")


def test_from_an_editable_installation(project: Path) -> None:
    assert "2 passed" in ran(sys.executable, "-m", "pytest", "-q", cwd=project)
