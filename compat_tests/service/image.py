"""An image without a container engine: the steps of a Containerfile, run in roots that mmdebstrap has made.

A root stands for the base image; a stage is a copy of the root. The broker runs in the last one as the image says: as
its user, in its directory, with nothing to write to but its volume.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import ROOT

CONTAINERFILE = ROOT / "tools" / "container" / "Containerfile"
SUITE = "stable"
# What the base image has; packages of Python come by the machine's own settings of pip
PACKAGES = "python3,python3-venv,ca-certificates"
BUILD_LIMIT_S = 600
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Arguments: root, volume, user, directory, command. The root is read-only, the volume is not
RUN_READ_ONLY = """
root=$1; volume=$2; user=$3; directory=$4; shift 4
mount --bind "$root" "$root"
mount --bind "$volume" "$root/data"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" sh -c 'cd "$0" && exec "$@"' "$directory" "$@"
"""


class Instruction(NamedTuple):
    """A line of a Containerfile."""

    name: str
    text: str

    def words(self) -> list[str]:
        """The words of the form in JSON."""
        words: list[str] = json.loads(self.text)
        return words


class Image:
    """What the last stage is: its root, and how its program is run."""

    def __init__(self, root: Path, instructions: Sequence[Instruction]) -> None:
        self.root = root
        self.instructions = instructions

    def value(self, name: str) -> str:
        [text] = [each.text for each in self.instructions if each.name == name]
        return text

    @property
    def user(self) -> str:
        return self.value("USER")

    @property
    def health_check(self) -> list[str]:
        return Instruction("CMD", self.value("HEALTHCHECK").rpartition("CMD ")[2]).words()

    @property
    def entry_point(self) -> list[str]:
        return Instruction("ENTRYPOINT", self.value("ENTRYPOINT")).words()

    def command(self, volume: Path, words: Sequence[str]) -> list[str]:
        """A command of this machine that runs a program of the image with a read-only root."""
        own = [str(self.root), str(volume), self.user, self.value("WORKDIR"), *words]
        return ["unshare", "--mount", "bash", "-ec", RUN_READ_ONLY, "bash", *own]

    def environment(self) -> dict[str, str]:
        texts = [each.text for each in self.instructions if each.name == "ENV"]
        return {"PATH": PATHS, "HOME": "/", **dict(text.split("=", 1) for text in texts)}


def instructions_of(text: str) -> list[list[Instruction]]:
    """The stages of a Containerfile, each from its FROM on; what is before the first one is the first element."""
    stages: list[list[Instruction]] = [[]]
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.strip().partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append(Instruction(name, rest.strip()))
    return stages


def make_base(directory: Path) -> Path:
    """The root that stands for the base image; a made one is kept for the next run."""
    base = directory / "base"
    if not base.exists():
        program = toolchain.program("mmdebstrap", "install mmdebstrap")
        made = directory / "base.partial"
        shutil.rmtree(made, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        command = [program, "--quiet", "--variant=minbase", f"--include={PACKAGES}", _suite(), str(made)]
        subprocess.run(command, check=True, timeout=BUILD_LIMIT_S)
        made.rename(base)
    return base


def _suite() -> str:
    """The suite of this machine."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    return found.group(1) if found else SUITE


def build(base: Path, directory: Path) -> Image:
    """Run the steps of the Containerfile, and return the image of its last stage."""
    roots: dict[str, Path] = {}
    _, *stages = instructions_of(CONTAINERFILE.read_text())
    for number, stage in enumerate(stages):
        root = directory / f"stage-{number}"
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)
        name = stage[0].text.partition(" AS ")[2]
        roots[name] = root
        for instruction in stage:
            _perform(instruction, root, roots)
    return Image(root, stages[-1])


def _perform(instruction: Instruction, root: Path, roots: Mapping[str, Path]) -> None:
    if instruction.name == "RUN":
        _run(root, instruction.text)
    elif instruction.name == "COPY":
        words = shlex.split(instruction.text)
        origin = ROOT
        if words[0].startswith("--from="):
            origin = roots[words.pop(0).partition("=")[2]]
        *sources, target = words
        into = root / target.lstrip("/")
        (into if target.endswith("/") else into.parent).mkdir(parents=True, exist_ok=True)
        _copy([origin / source.lstrip("/") for source in sources], into)


def _copy(sources: Sequence[Path], into: Path) -> None:
    subprocess.run(["cp", "-a", "--no-preserve=ownership", *sources, into], check=True)


def _run(root: Path, command: str) -> None:
    """Run a step as root of the image, with the network and the settings of pip that this machine has."""
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        here = Path("/") / name
        if here.exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, root / name)
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()}
    environment = {"PATH": PATHS, "HOME": "/root", **settings}
    subprocess.run(
        ["chroot", root, "sh", "-ec", command],
        env=environment,
        check=True,
        timeout=BUILD_LIMIT_S,
        stdin=subprocess.DEVNULL,
    )
