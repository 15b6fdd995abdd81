"""install.mk in a small tree, with programs that note their arguments in place of the real ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

DEVELOPMENT: Final = Path(__file__).resolve().parents[1]
# A program fails if its arguments have the text of $FAILING
NOTE: Final = (
    '#!/bin/bash\nset -eu\necho "${0##*/} $*" >>"$ROOT/commands"\n[[ -z ${FAILING:-} || "$*" != *$FAILING* ]]\n'
)
PROGRAMS: Final = {
    "python": """case "$*" in
        "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
        *"config list") printf '%s' "${PIP_SETTINGS:-}" ;;
        "-m pip"*) mkdir -p .venv/uv/bin; cp "${0%/*}/uv" .venv/uv/bin/uv ;;
    esac""",
    "uv": """echo "${UV_INDEX_STRATEGY:-} ${UV_DEFAULT_INDEX:-} ${UV_INDEX:-} ${UV_FIND_LINKS:-}" >>"$ROOT/uv-settings"
    while [ $# -gt 1 ]; do if [ "$1" = --target ]; then mkdir -p "$2"; fi; shift; done""",
    "java": "",
    "mvn": """sets="$*"; sets=${sets#*-pl }; sets=${sets%% *}
    for set in ${sets//,/ }; do mkdir -p "build/jars/.partial/$set"; done""",
    "go": 'while [ "$1" != -o ]; do shift; done; mkdir -p "${2%/*}"; touch "$2"',
    "node": "",
    "npm": 'mkdir "$3/node_modules"',
    "id": 'echo "${USER_ID:-1000}"',
    "uname": 'echo "${MACHINE:-Linux x86_64}"',
    "apt-get": 'mkdir "$ROOT/apt-runs" && sleep 0.05 && rmdir "$ROOT/apt-runs"',
    "kcat": "",
}
FILES: Final = (
    *("requirements/lock.txt", "requirements/runtime.txt", "requirements/test.txt", "requirements/spark.txt"),
    *("pyproject.toml", "compat_tests/matrix/python/old/pykafka-2.txt"),
    *("compat_tests/matrix/python/old/confluent-kafka-1.txt", "compat_tests/spark_versions/client-4.txt"),
    *("compat_tests/java/pom.xml", "compat_tests/java/broker/pom.xml", "compat_tests/java/spark/pom.xml"),
    *("compat_tests/go/lines/lines.go", "compat_tests/go/sarama/main.go", "compat_tests/go/kafka-go/main.go"),
    *("compat_tests/node/package.json", "compat_tests/node/package-lock.json", "compat_tests/node/.npmrc"),
)


@dataclass(frozen=True)
class Tree:
    root: Path

    def make(self, *goals: str, without: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        """Run install.mk with other programs than those `without`."""
        for name in without:
            (self.root / "programs" / name).unlink()
        command = ("make", "--silent", "--file", "tools/development/install.mk", "PYTHON=programs/python", *goals)
        more = {"PATH": f"{self.root}/programs:{self.root}/system", "ROOT": str(self.root), **environment}
        return subprocess.run(command, cwd=self.root, env=more, capture_output=True, text=True, check=False, timeout=60)

    def commands(self) -> list[str]:
        """The commands since the last look, without questions about settings."""
        file = self.root / "commands"
        noted = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line for line in noted if not line.startswith(("python -c", "python -m pip config", "id", "uname"))]

    def change(self, path: str) -> None:
        """Make a file newer than everything."""
        now = time.time_ns()
        os.utime(self.root / path, ns=(now, now))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name in ("install.mk", "uv"):
        (tmp_path / "tools/development").mkdir(parents=True, exist_ok=True)
        shutil.copy(DEVELOPMENT / name, tmp_path / "tools/development")
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "programs").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "programs" / name).write_text(NOTE + text)
        (tmp_path / "programs" / name).chmod(0o755)
    (tmp_path / "system").mkdir()
    for name in (
        "bash",
        "cat",
        "cp",
        "env",
        "flock",
        "make",
        "mkdir",
        "mv",
        "rm",
        "rmdir",
        "sed",
        "sleep",
        "sort",
        "touch",
    ):
        (tmp_path / "system" / name).symlink_to(str(shutil.which(name)))
    return Tree(tmp_path)


def test_a_second_run_installs_nothing(tree: Tree) -> None:
    assert tree.make("test").returncode == 0
    assert [line.split()[-1] for line in tree.commands()] == [
        ".venv",
        "requirements/lock.txt",
        "requirements/runtime.txt",
        ".",
        "requirements/test.txt",
    ]
    assert tree.make("test").returncode == 0
    assert tree.commands() == []


def test_a_changed_lock_file_installs_its_packages_again(tree: Tree) -> None:
    tree.make("test")
    tree.commands()
    tree.change("requirements/test.txt")
    tree.make("test")
    assert tree.commands() == ["uv pip install --quiet --require-hashes -r requirements/test.txt"]


def test_an_interrupted_run_begins_with_a_new_environment(tree: Tree) -> None:
    assert tree.make("test", FAILING="test.txt").returncode != 0
    assert "python -m venv --without-pip .venv" in tree.commands()
    tree.make("test")
    assert "python -m venv --without-pip .venv" in tree.commands()
    tree.make("test")
    assert tree.commands() == []


def test_a_moved_tree_gets_a_new_environment(tree: Tree, tmp_path: Path) -> None:
    tree.make("runtime")
    tree.root.rename(tmp_path.with_name("moved"))
    moved = Tree(tmp_path.with_name("moved"))
    moved.commands()
    moved.make("runtime")
    assert "python -m venv --without-pip .venv" in moved.commands()


def test_uv_has_the_settings_of_pip(tree: Tree) -> None:
    settings = (
        ":env:.find-links='one two'\nglobal.extra-index-url='\\nhttps://a\\nhttps://b'\nglobal.index-url='https://c'\n"
    )
    tree.make("runtime", PIP_SETTINGS=settings)
    noted = (tree.root / "uv-settings").read_text().splitlines()
    assert noted[0] == "unsafe-best-match https://c https://a https://b one,two"


def test_variables_of_uv_precede_the_settings_of_pip(tree: Tree) -> None:
    tree.make("runtime", PIP_SETTINGS="global.index-url='https://c'\n", UV_DEFAULT_INDEX="https://mine")
    assert (tree.root / "uv-settings").read_text().startswith("unsafe-best-match https://mine  \n")


def test_maven_fetches_only_the_changed_sets_of_jars_again(tree: Tree) -> None:
    sets = []
    for changed in ("spark/pom.xml", "pom.xml", "pom.xml"):
        tree.make("jars")
        tree.make("jars")
        sets += [line.split("-pl ")[1].split()[0] for line in tree.commands()]
        tree.change(f"compat_tests/java/{changed}")
    assert sets == ["broker,spark", "spark", "broker,spark"]


def test_go_builds_two_versions_of_a_client_from_one_folder(tree: Tree) -> None:
    tree.make("build/go/kafka-go", "build/go/kafka-go-0.2")
    options = f"-mod=readonly -buildvcs=false -o {tree.root}/build/go/kafka-go"
    assert sorted(tree.commands()) == [
        f"go build -C compat_tests/go/kafka-go {options} .",
        f"go build -C compat_tests/go/kafka-go -modfile=v0.2.mod -tags=v0_2 {options}-0.2 .",
    ]
    tree.change("compat_tests/go/lines/lines.go")
    tree.make("build/go/sarama")
    assert len(tree.commands()) == 1


def test_a_client_that_go_cannot_build_is_an_error_in_ci(tree: Tree) -> None:
    run = tree.make("go", FAILING="sarama")
    assert run.returncode == 0
    assert "sarama is not built (it needs Go 1.26 or newer); the tests that need it are skipped" in run.stderr
    assert tree.make("go", FAILING="sarama", CI="true").returncode != 0


def test_packages_of_node_stay_if_new_ones_cannot_be_had(tree: Tree) -> None:
    tree.make("node")
    tree.change("compat_tests/node/package.json")
    assert tree.make("node", FAILING="ci").returncode != 0
    assert (tree.root / "build/node/node_modules").is_dir()


def test_old_clients_lie_beside_the_environment(tree: Tree) -> None:
    tree.make("old", "connect")
    assert (tree.root / "build/old/pykafka-2").is_dir()
    assert (tree.root / "build/spark/client-4").is_dir()
    (client,) = (line for line in tree.commands() if "pykafka" in line)
    assert "--require-hashes --no-deps --only-binary :all: --no-binary pykafka --no-build-isolation" in client
    tree.make("old", "connect")
    assert tree.commands() == []


def test_wheels_for_one_machine_are_missing_on_others(tree: Tree) -> None:
    run = tree.make("old", MACHINE="Darwin arm64")
    assert run.returncode == 0
    assert "confluent-kafka-1 has wheels for Linux on x86-64 only; the tests that need it are skipped" in run.stderr
    assert tree.make("old", MACHINE="Darwin arm64", CI="true").returncode != 0


def test_a_missing_program_is_an_error_in_ci_alone(tree: Tree) -> None:
    goals = ("jars", "go", "node", "kcat")
    run = tree.make(*goals, without=("mvn", "go", "npm", "kcat", "apt-get"))
    assert run.returncode == 0
    for missing in ("mvn is not on the path", "go is not on the path", "npm is not on the path", "no kcat is on this"):
        assert f"install: {missing}" in run.stderr
    assert tree.commands() == []
    assert [tree.make(goal, CI="true").returncode for goal in goals] == [2, 2, 2, 2]


def test_only_root_installs_kcat(tree: Tree) -> None:
    assert "sudo apt-get install kcat" in tree.make("kcat", without=("kcat",)).stderr
    assert tree.commands() == []
    tree.make("kcat", USER_ID="0")
    [command] = tree.commands()
    assert command.startswith("apt-get install --yes --no-install-recommends -qq ")
    assert command.endswith(" kcat")


def test_one_apt_at_a_time_runs(tree: Tree) -> None:
    made = tree.make("kcat", "prometheus", "chromium", without=("kcat",), USER_ID="0", CI="true")
    assert (made.returncode, made.stderr.count("apt-runs")) == (0, 0)
    assert len(tree.commands()) == 3


def test_a_second_run_waits_for_the_first(tree: Tree) -> None:
    shutil.copy(DEVELOPMENT.parents[1] / "Makefile", tree.root)
    (tree.root / "build").mkdir()
    environment = {**os.environ, "PATH": f"{tree.root}/programs:{os.environ['PATH']}", "ROOT": str(tree.root)}
    with (tree.root / "build/install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ("make", "PYTHON=python", "jars")
        with subprocess.Popen(command, cwd=tree.root, env=environment, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "install: another run installs: waiting for its end\n"
            assert tree.commands() == []
            fcntl.flock(lock, fcntl.LOCK_UN)
            second.communicate(timeout=60)
    assert second.returncode == 0
    assert [line.split()[0] for line in tree.commands()] == ["mvn"]
