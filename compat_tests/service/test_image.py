"""The image: its file names what it needs, and no place; its steps make a broker that runs as it says.

The steps take a minute, and packages from the network: only `make soak` runs them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import READY
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.service.image import CONTAINERFILE, Image, build, instructions_of, make_base

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def image() -> Image:
    if os.geteuid() != 0:
        pytest.skip("only root changes its root")
    toolchain.program("unshare", "install util-linux")
    directory = ROOT / "build" / "image"
    return build(make_base(directory), directory)


@pytest.fixture
def broker(image: Image, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program of the image, with a volume of its own, at a free port."""
    volume = tmp_path / "volume"
    volume.mkdir()
    user, group = map(int, image.user.split(":"))
    os.chown(volume, user, group)
    for directory in (tmp_path, *tmp_path.parents):
        directory.chmod(directory.stat().st_mode | 0o011)
    overrides = ["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "advertised.listeners="]
    overrides += ["--override", "headgate.http.listeners=http://127.0.0.1:9644"]
    command = image.command(volume, [*image.entry_point, *overrides])
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(command, env=image.environment(), stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        yield process
        process.kill()


def test_the_file_names_no_place_and_no_root() -> None:
    first, *stages = instructions_of(CONTAINERFILE.read_text())
    assert [instruction.name for instruction in first] == ["ARG"]
    assert "/" not in first[0].text, "a short name, without a registry"
    assert [stage[0].text for stage in stages] == ["${BASE} AS build", "${BASE}"]
    names = [instruction.name for instruction in stages[-1]]
    assert names.count("VOLUME") == 1
    [user] = [instruction.text for instruction in stages[-1] if instruction.name == "USER"]
    assert user.split(":")[0] not in ("0", "root")
    installs = [step.text for stage in stages for step in stage if step.name == "RUN" and "pip install" in step.text]
    assert all("--require-hashes" in text or "--no-deps" in text for text in installs)


@pytest.mark.soak
def test_the_broker_of_the_image_runs_confined(image: Image, broker: subprocess.Popen[str], tmp_path: Path) -> None:
    assert broker.stdout is not None
    line = broker.stdout.readline()
    found = READY.search(line)
    assert found is not None, (tmp_path / "errors").read_text()
    send(f"127.0.0.1:{found.group(2)}", "greetings", ["hello"])
    status = Path(f"/proc/{broker.pid}/status").read_text()
    assert f"Uid:\t{image.user.split(':')[0]}\t" in status
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            image.command(tmp_path / "volume", ["touch", "/opt/headgate/x"]), check=True, capture_output=True
        )
    check = image.command(tmp_path / "volume", image.health_check)
    until(lambda: health(image, check) == 0, "the health check to succeed", LIMIT_S, 0.5)
    broker.terminate()
    assert broker.wait(LIMIT_S) == 0
    assert health(image, check) == 1
    assert (tmp_path / "volume" / "greetings-0").is_dir()


def health(image: Image, check: list[str]) -> int:
    return subprocess.run(check, env=image.environment(), check=False, capture_output=True).returncode
