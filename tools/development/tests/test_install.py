"""The parts of install.py that decide; what they run is recorded instead of run."""

from __future__ import annotations

import dataclasses
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.tools.development import install
from headgate.tools.development.install import InstallError, Machine


@dataclass(frozen=True)
class Recorder(Machine):
    """A machine whose commands succeed, or fail where `failing` is one of their words."""

    commands: list[tuple[str, ...]] = field(default_factory=list)
    failing: str | None = None

    def run(self, *command: str | Path, **more: str) -> None:
        words = tuple(map(str, command))
        self.commands.append(words)
        if self.failing in words:
            raise InstallError(f"{words} failed")
        if words[1:3] == ("-m", "venv"):
            self.python.parent.mkdir(parents=True, exist_ok=True)
            self.python.touch()
        if words[0] == "mvn":
            for name in words[words.index("-pl") + 1].split(","):
                (self.jars / "partial" / name).mkdir(parents=True)
                (self.jars / "partial" / name / "a.jar").touch()
        if words[0] == "go":
            Path(words[words.index("-o") + 1]).parent.mkdir(parents=True, exist_ok=True)
        if "--target" in words:
            Path(words[words.index("--target") + 1]).mkdir(parents=True)
        if words[0] == "npm":
            (Path(words[words.index("--prefix") + 1]) / "node_modules").mkdir()


@pytest.fixture
def machine(tmp_path: Path) -> Recorder:
    (tmp_path / "requirements").mkdir()
    for name in ("runtime", "test", "spark"):
        (tmp_path / "requirements" / f"{name}.txt").write_text("trio==0.35.0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name in ("", *install.JAR_SETS):
        (tmp_path / "compat_tests" / "java" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "compat_tests" / "java" / name / "pom.xml").write_text("<project/>")
    for name in ("lines", *{module for _, module, _ in install.GO_PROGRAMS.values()}):
        (tmp_path / "compat_tests" / "go" / name).mkdir(parents=True)
        (tmp_path / "compat_tests" / "go" / name / "go.mod").write_text(f"module {name}\n")
    (tmp_path / "compat_tests" / "node").mkdir()
    for name in install.NODE_MANIFEST:
        (tmp_path / "compat_tests" / "node" / name).write_text("{}\n")
    pinned = tmp_path / "compat_tests" / "matrix" / "python" / "old"
    pinned.mkdir(parents=True)
    versions = tmp_path / "compat_tests" / "spark_versions"
    versions.mkdir()
    for name in (*install.SPARKS, *install.CONNECT_CLIENTS):
        (versions / f"{name}.txt").write_text(f"pyspark=={name} --hash=sha256:0\n")
    for name in install.OLD_CLIENTS:
        (pinned / f"{name}.txt").write_text(f"{name}\n")
    return Recorder(tmp_path, {}, is_root=False)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory that programs are found in."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def provide(path: Path, *names: str) -> None:
    for name in names:
        (path / name).touch(mode=0o755)


def package(machine: Machine, name: str, *, files: tuple[str, ...] = (), record: bool = True) -> None:
    """A package as pip leaves it, or as it leaves it when it is ended before it writes the list of files."""
    site = machine.venv / "lib" / "python3.11" / "site-packages"
    (site / f"{name}-1.dist-info").mkdir(parents=True)
    for file in files:
        (site / file).touch()
    if record:
        (site / f"{name}-1.dist-info" / "RECORD").write_text(f"{name}.py,sha256=ab,1\n__pycache__/{name}.pyc,,\n")


def test_the_second_run_does_nothing(machine: Recorder) -> None:
    install.test(machine)
    assert [command[1:3] for command in machine.commands].count(("-m", "venv")) == 1
    assert sum("--require-hashes" in command for command in machine.commands) == 2
    machine.commands.clear()
    install.test(machine)
    assert machine.commands == []


def test_a_changed_lock_file_installs_again_and_nothing_else_does(machine: Recorder) -> None:
    install.test(machine)
    machine.commands.clear()
    lock = machine.root / "requirements" / "test.txt"
    lock.write_text("trio==0.36.0\n")
    install.test(machine)
    assert [command[-1] for command in machine.commands] == [str(lock)]


def test_headgate_is_installed_without_isolation_and_dependencies(machine: Recorder) -> None:
    install.runtime(machine)
    assert {"--no-deps", "--no-build-isolation", "--editable"} <= set(machine.commands[-1])


def test_an_interrupted_run_leaves_its_mark_and_no_stamp(machine: Recorder) -> None:
    failing = dataclasses.replace(machine, failing="--require-hashes")
    with pytest.raises(InstallError):
        install.runtime(failing)
    assert machine.unfinished.exists()
    assert not (machine.stamps / "runtime").exists()


def test_after_an_interruption_a_whole_environment_is_kept(machine: Recorder) -> None:
    install.environment(machine)
    package(machine, "whole", files=("whole.py",))
    machine.unfinished.touch()
    machine.commands.clear()
    install.environment(machine)
    assert machine.commands == []
    assert not machine.unfinished.exists()


@pytest.mark.parametrize("files, record", [((), True), (("half.py",), False)])
def test_half_a_package_makes_the_environment_anew(machine: Recorder, files: tuple[str, ...], record: bool) -> None:
    install.environment(machine)
    package(machine, "half", files=files, record=record)
    machine.unfinished.touch()
    install.environment(machine)
    assert machine.commands == [(sys.executable, "-m", "venv", str(machine.venv))] * 2
    assert not machine.unfinished.exists()
    assert machine.python.exists()


def test_a_half_made_environment_is_made_anew(machine: Recorder) -> None:
    machine.stamps.mkdir(parents=True)
    machine.unfinished.touch()
    machine.run(sys.executable, "-m", "venv", machine.venv)
    install.environment(machine)
    assert len(machine.commands) == 2


def test_a_failed_environment_is_removed_and_the_package_named(machine: Recorder) -> None:
    with pytest.raises(InstallError, match=r"apt-get install python3\.\d+-venv"):
        install.environment(dataclasses.replace(machine, failing="venv"))
    assert not machine.venv.exists()


def test_jars_are_fetched_once_and_only_the_changed_set_again(machine: Recorder, path: Path) -> None:
    provide(path, "java", "mvn")
    install.jars(machine)
    install.jars(machine)
    (machine.root / "compat_tests" / "java" / "spark" / "pom.xml").write_text("<project></project>")
    install.jars(machine)
    assert [command[command.index("-pl") + 1] for command in machine.commands] == [",".join(install.JAR_SETS), "spark"]
    assert sorted(found.name for found in machine.jars.glob("*/*.jar")) == ["a.jar"] * len(install.JAR_SETS)
    assert not (machine.jars / "partial").exists()


def test_go_clients_are_built_once_and_again_for_changed_sources(machine: Recorder, path: Path) -> None:
    provide(path, "go")
    sources = machine.root / "compat_tests" / "go"
    install.go(machine)
    install.go(machine)
    (sources / "sarama" / "main.go").write_text("package main\n")
    install.go(machine)
    (sources / "lines" / "lines.go").write_text("package lines\n")
    install.go(machine)
    built = [Path(command[command.index("-o") + 1]).name for command in machine.commands]
    everything = list(install.GO_PROGRAMS)
    assert built == [*everything, "sarama", *everything]


def test_two_versions_of_a_go_client_are_built_from_one_directory(machine: Recorder, path: Path) -> None:
    provide(path, "go")
    install.go(machine)
    commands = {Path(words[words.index("-o") + 1]).name: words for words in machine.commands}
    assert commands["sarama-1.10"][2:7] == (
        "-C",
        str(machine.root / "compat_tests" / "go" / "shopify-sarama"),
        "-modfile=v1.10.mod",
        "-tags=v1_10",
        "-mod=readonly",
    )
    assert commands["sarama-1.19"][2:5] == (*commands["sarama-1.10"][2:4], "-mod=readonly")


def test_an_unbuilt_go_client_is_missing_and_built_by_the_next_run(
    machine: Recorder, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provide(path, "go")
    failing = dataclasses.replace(machine, failing=str(machine.root / "compat_tests" / "go" / "sarama"))
    with pytest.raises(InstallError):
        install.go(dataclasses.replace(failing, environment={"CI": "true"}))
    install.go(failing)
    assert "sarama is not built (it needs Go 1.26 or newer)" in capsys.readouterr().err
    machine.commands.clear()
    install.go(machine)
    assert [Path(command[command.index("-o") + 1]).name for command in machine.commands] == ["sarama"]


def test_the_suite_of_a_go_client_is_built_from_its_pinned_version(machine: Recorder, path: Path) -> None:
    provide(path, "go")
    install.go(machine)
    client, suite = machine.root / "compat_tests" / "go" / "franz-go", machine.go_programs / "kgo.test"
    (command,) = [words for words in machine.commands if str(suite) in words]
    assert command[:5] == ("go", "test", "-C", str(client), "-c")
    assert command[-3:] == ("-o", str(suite), "github.com/twmb/franz-go/pkg/kgo")
    machine.commands.clear()
    (client / "go.mod").write_text("module changed\n")
    install.go(machine)
    assert any(str(suite) in words for words in machine.commands)


def test_node_packages_are_installed_once_and_for_a_changed_lock(machine: Recorder, path: Path) -> None:
    provide(path, "node", "npm")
    install.node(machine)
    install.node(machine)
    assert [command[:2] for command in machine.commands] == [("npm", "ci")]
    (machine.root / "compat_tests" / "node" / "package-lock.json").write_text("{ }\n")
    install.node(machine)
    assert len(machine.commands) == 2
    assert sorted(found.name for found in machine.node_packages.iterdir()) == sorted(
        [*install.NODE_MANIFEST, "node_modules"]
    )


def test_node_packages_that_could_not_be_installed_leave_the_old_ones(machine: Recorder, path: Path) -> None:
    provide(path, "node", "npm")
    install.node(machine)
    (machine.root / "compat_tests" / "node" / "package-lock.json").write_text("{ }\n")
    for _ in range(2):
        with pytest.raises(InstallError):
            install.node(dataclasses.replace(machine, failing="ci"))
    assert (machine.node_packages / "node_modules").exists()
    machine.commands.clear()
    install.node(machine)
    assert len(machine.commands) == 1


def unpacked(machine: Recorder) -> list[str]:
    """The old clients of the commands, in their order."""
    return [Path(command[-1]).stem for command in machine.commands if "--target" in command]


def test_old_clients_are_unpacked_side_by_side_once_for_each_lock(machine: Recorder) -> None:
    install.old(machine)
    install.old(machine)
    assert unpacked(machine) == list(install.OLD_CLIENTS)
    assert all((machine.old_clients / name).is_dir() for name in install.OLD_CLIENTS)
    assert all("--require-hashes" in command for command in machine.commands if "--target" in command)
    assert not any(str(machine.venv) in command[-2:] for command in machine.commands[1:])
    lock = machine.root / "compat_tests" / "matrix" / "python" / "old" / "kafka-python-2.0.2.txt"
    lock.write_text("changed\n")
    machine.commands.clear()
    install.old(machine)
    assert unpacked(machine) == ["kafka-python-2.0.2"]


def test_an_old_client_that_cannot_be_fetched_leaves_the_others(machine: Recorder) -> None:
    failing = str(machine.root / "compat_tests" / "matrix" / "python" / "old" / "confluent-kafka-1.0.0.txt")
    with pytest.raises(InstallError):
        install.old(dataclasses.replace(machine, failing=failing))
    machine.commands.clear()
    install.old(machine)
    left = ["confluent-kafka-1.0.0", "confluent-kafka-1.4.2", "confluent-kafka-1.9.2", "pykafka-2.8.0"]
    assert unpacked(machine) == left


def test_versions_of_spark_are_unpacked_side_by_side(machine: Recorder) -> None:
    install.connect(machine)
    install.sparks(machine)
    install.sparks(machine)
    assert unpacked(machine) == ["client-4.1.1", "4.0.0", "4.2.0"]
    assert all("--no-build-isolation" in command for command in machine.commands if "--target" in command)
    assert (machine.sparks / "4.2.0").is_dir()


def test_old_clients_in_c_are_for_one_kind_of_machine(machine: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    other = dataclasses.replace(machine, is_linux_x86_64=False)
    with pytest.raises(InstallError, match="Linux on x86-64"):
        install.old(dataclasses.replace(other, environment={"CI": "true"}))
    install.old(other)
    assert unpacked(machine) == ["kafka-python-1.4.7", "kafka-python-2.0.2", "pykafka-2.8.0"]
    assert "confluent-kafka-1.9.2: there are wheels for Linux on x86-64 only" in capsys.readouterr().err


def test_a_missing_toolchain_is_told_to_a_person_and_fails_in_ci(
    machine: Recorder, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert path.exists()
    install.jars(machine)
    parts = (install.jars, install.kcat, install.go, install.node)
    for part in parts[1:]:
        part(machine)
    said = capsys.readouterr().err
    for names in ("java or mvn", "kcat", "go", "node or npm"):
        assert f"{names} is not on the path" in said
    in_ci = dataclasses.replace(machine, environment={"CI": "true"})
    for part in parts:
        with pytest.raises(InstallError):
            part(in_ci)
    assert machine.commands == []


def test_only_root_installs_a_system_package(machine: Recorder, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    provide(path, "apt-get")
    install.kcat(machine)
    assert machine.commands == []
    assert "sudo apt-get install kcat" in capsys.readouterr().err
    install.kcat(dataclasses.replace(machine, is_root=True))
    assert machine.commands[0][:2] == ("apt-get", "install")


def test_package_lists_are_fetched_when_the_package_is_not_found(machine: Recorder, path: Path) -> None:
    provide(path, "apt-get")
    with pytest.raises(InstallError):
        install.kcat(dataclasses.replace(machine, is_root=True, failing="install"))
    assert [command[1] for command in machine.commands] == ["install", "update", "install"]


@pytest.mark.sockets
def test_a_command_runs_in_the_tree_with_the_environment_and_more(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ONE": "1"}, is_root=False)
    machine.run(
        sys.executable, "-c", "import os; open('seen', 'w').write(os.environ['ONE'] + os.environ['TWO'])", TWO="2"
    )
    assert (tmp_path / "seen").read_text() == "12"
    with pytest.raises(InstallError, match="ended with 3"):
        machine.run(sys.executable, "-c", "raise SystemExit(3)")


def test_a_second_run_waits_for_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "build" / "install.lock"
    order: list[str] = []

    def second() -> None:
        with install.alone(lock):
            order.append("second")

    with install.alone(lock):
        thread = threading.Thread(target=second)
        thread.start()
        while "waiting" not in capsys.readouterr().err:
            thread.join(0.001)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_part_that_is_none_is_named_before_anything_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["test", "nope"]) == 2
    assert "there is no nope; the parts are " in capsys.readouterr().err


def test_other_parts_are_installed_and_their_failures_told(machine: Recorder, path: Path) -> None:
    provide(path, "java", "mvn", "go", "node", "npm")
    install.install_all(machine, ["runtime", "jars", "go", "node"])
    assert {Path(command[0]).name for command in machine.commands} >= {"mvn", "go", "npm"}
    assert (machine.stamps / "runtime").exists()
    machine.node_packages.with_suffix(".stamp").unlink()
    with pytest.raises(InstallError, match="npm"):
        install.install_all(dataclasses.replace(machine, failing="npm"), ["runtime", "node"])
