"""Install what `make` needs, once: the virtual environment, Maven's jars, kcat, clients of Go and Node.js, old clients.

    python3 tools/development/install.py runtime test spark jars kcat go node old

Runs on any Python 3.11 with nothing installed. Each part leaves a stamp with a digest of what it was made from, so that
a second run takes a few milliseconds and a changed lock file installs again. One run at a time: others wait. A run that
was interrupted has left a mark; the next one looks whether each package is whole, and if not makes the virtual
environment anew.

Exit status 0: all there, or missing in a way that skips tests by name; where CI=true whatever is missing is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLDEST: Final = (3, 11)
JAR_SETS: Final = (
    "clients",
    "schemas",
    "broker",
    "broker39",
    "broker28",
    "broker08",
    "zookeeper",
    "matrix",
    "spark",
    "spark40",
    "spark42",
    "sparkformats",
    "streams",
)
# name -> (arguments of go, directory in compat_tests/go, package)
GO_PROGRAMS: Final = {
    "franz-go": ("build", "franz-go", "."),
    "sarama": ("build", "sarama", "."),
    "sarama-1.19": ("build", "shopify-sarama", "."),
    "sarama-1.10": ("build -modfile=v1.10.mod -tags=v1_10", "shopify-sarama", "."),
    "kafka-go": ("build", "kafka-go", "."),
    "kafka-go-0.2": ("build -modfile=v0.2.mod -tags=v0_2", "kafka-go", "."),
    # The tests of the package itself, from the version that the client pins
    "kgo.test": ("test -c", "franz-go", "github.com/twmb/franz-go/pkg/kgo"),
}
# Wheels of a library in C, for the one machine that all of its old versions were built for
OLD_LINUX: Final = ("--python-version", "3.7", "--platform", "manylinux2014_x86_64")
# Published as a source archive alone; the environment has what builds it
FROM_SOURCE: Final = ("--no-binary=pykafka", "--no-build-isolation")
OLD_CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka-python-1.4.7": (),
    "kafka-python-2.0.2": (),
    "confluent-kafka-0.11.6": OLD_LINUX,
    "confluent-kafka-1.0.0": OLD_LINUX,
    "confluent-kafka-1.4.2": OLD_LINUX,
    "confluent-kafka-1.9.2": OLD_LINUX,
    "pykafka-2.8.0": FROM_SOURCE,
}
# Versions of Spark beside that of the environment, and the thin client of Spark Connect; py4j is in the environment
SPARKS: Final[Mapping[str, tuple[str, ...]]] = {
    "4.0.0": ("--no-binary=pyspark", "--no-build-isolation"),
    "4.2.0": ("--no-binary=pyspark", "--no-build-isolation"),
}
CONNECT_CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "client-4.1.1": ("--no-binary=pyspark-client", "--no-build-isolation"),
}
NODE_MANIFEST: Final = ("package.json", "package-lock.json", ".npmrc")


class InstallError(Exception):
    """An installation failed; the text says which, and what to do."""


@dataclass(frozen=True)
class Machine:
    """The inputs of an installation: a tree, its environment variables, the user. Tests pass their own."""

    root: Path
    environment: Mapping[str, str]
    is_root: bool
    is_linux_x86_64: bool = True

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def stamps(self) -> Path:
        """Inside the environment, so that removing it forgets them too."""
        return self.venv / ".installed"

    @property
    def unfinished(self) -> Path:
        """Exists while pip works on the environment."""
        return self.stamps / "unfinished"

    @property
    def jars(self) -> Path:
        return self.root / "build" / "jars"

    @property
    def go_programs(self) -> Path:
        return self.root / "build" / "go"

    @property
    def node_packages(self) -> Path:
        return self.root / "build" / "node"

    @property
    def old_clients(self) -> Path:
        return self.root / "build" / "old"

    @property
    def sparks(self) -> Path:
        return self.root / "build" / "spark"

    @property
    def is_ci(self) -> bool:
        return self.environment.get("CI", "").lower() in {"true", "1"}

    def run(self, *command: str | Path, **more: str) -> None:
        """Run a command, with more variables in its environment; its output goes where ours goes."""
        environment = {**self.environment, **more}
        status = subprocess.run([str(word) for word in command], cwd=self.root, env=environment, check=False).returncode
        if status != 0:
            raise InstallError(f"`{' '.join(map(str, command))}` ended with {status}: see its lines above")


def digest(*parts: str | Path) -> str:
    """Of texts and of files' contents."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()


def is_current(stamp: Path, wanted: str) -> bool:
    try:
        return stamp.read_text() == wanted
    except OSError:
        return False


def write_stamp(stamp: Path, wanted: str) -> None:
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the lock file; say so when another run has it."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock: two runs at once are the person's to avoid
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run installs: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(sentence: str) -> None:
    print(f"install: {sentence}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    say(what)
    began = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")


# ------------------------------------------------------------------------------------------- the virtual environment


def environment(machine: Machine) -> None:
    """A virtual environment that works, or a new one."""
    made = machine.stamps / "environment"
    if machine.unfinished.exists():
        if made.exists() and is_whole(machine.venv):
            machine.unfinished.unlink()
        else:
            say(f"an installation was interrupted: making {machine.venv} anew")
            shutil.rmtree(machine.venv)
    if machine.python.exists():
        return
    with timed("virtual environment"):
        shutil.rmtree(machine.venv, ignore_errors=True)
        with marked(machine):
            new_environment(machine)
    write_stamp(made, sys.version)


def new_environment(machine: Machine) -> None:
    try:
        machine.run(sys.executable, "-m", "venv", machine.venv)
    except InstallError as error:
        shutil.rmtree(machine.venv, ignore_errors=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise InstallError(f"{error}\n(on Debian and Ubuntu: apt-get install {version}-venv)") from error


def is_whole(venv: Path) -> bool:
    """Whether every package has its list of files, which pip writes last, and the files of that list.

    A package that was interrupted before it had a name is no package to pip, which installs it again.
    """
    for description in venv.glob("[Ll]ib/**/site-packages/*.dist-info"):
        try:
            names = [line.rsplit(",", 2)[0].strip('"') for line in (description / "RECORD").read_text().splitlines()]
        except OSError:
            return False
        if not all((description.parent / name).exists() for name in names if not name.endswith(".pyc")):
            return False
    return True


@contextlib.contextmanager
def marked(machine: Machine) -> Iterator[None]:
    """Leave the mark if the block does not end well: pip may take half an installed package for a whole one."""
    machine.stamps.mkdir(parents=True, exist_ok=True)
    machine.unfinished.touch()
    yield
    machine.unfinished.unlink()


def pip_install(machine: Machine, *arguments: str | Path) -> None:
    """Without bytecode: Python compiles the few modules that it imports, at their first import."""
    quiet = () if sys.stderr.isatty() else ("--quiet",)
    pip = (machine.python, "-m", "pip", "--disable-pip-version-check")
    machine.run(*pip, "install", "--no-compile", *quiet, *arguments)


def packages(machine: Machine, name: str, *options: str) -> None:
    """Install the packages of requirements/<name>.txt, every archive checked against its hash."""
    lock = machine.root / "requirements" / f"{name}.txt"
    stamp, wanted = machine.stamps / name, digest(str(machine.root), lock, *options)
    if is_current(stamp, wanted):
        return
    with timed(f"packages of requirements/{name}.txt"), marked(machine):
        pip_install(machine, "--require-hashes", *options, "-r", lock)
    write_stamp(stamp, wanted)


def runtime(machine: Machine) -> None:
    """Headgate from this tree and what it runs on, and the build backend, pinned like the rest."""
    environment(machine)
    packages(machine, "runtime")
    stamp, wanted = machine.stamps / "headgate", digest(str(machine.root), machine.root / "pyproject.toml")
    if is_current(stamp, wanted):
        return
    with timed("headgate, editable"), marked(machine):
        pip_install(machine, "--no-deps", "--no-build-isolation", "--editable", machine.root)
    write_stamp(stamp, wanted)


def test(machine: Machine) -> None:
    """Install the needs of `make check` and the tests, without Spark."""
    runtime(machine)
    packages(machine, "test")


def lock(machine: Machine) -> None:
    """Install the needs of `make lock`."""
    environment(machine)
    packages(machine, "lock")


def spark(machine: Machine) -> None:
    """PySpark, 430 MB, published as a source archive: pip keeps the wheel it makes of it, so it is fetched once."""
    runtime(machine)
    packages(machine, "spark", "--no-build-isolation")


# --------------------------------------------------------------------------------------------- jars and other programs


def missing(machine: Machine, sentence: str) -> None:
    """Tests that need it are skipped by name; CI must have it."""
    if machine.is_ci:
        raise InstallError(sentence)
    say(f"{sentence}; the tests that need it are skipped")


def jars(machine: Machine) -> None:
    """Every jar set of compat_tests/java that is not there yet, in one run of Maven."""
    source = machine.root / "compat_tests" / "java"
    wanted = {name: digest(source / "pom.xml", source / name / "pom.xml") for name in JAR_SETS}
    stale = [name for name in JAR_SETS if not is_current(machine.jars / f"{name}.stamp", wanted[name])]
    if not stale:
        return
    if shutil.which("java") is None or shutil.which("mvn") is None:
        missing(machine, "java or mvn is not on the path: install a JDK, version 17 or newer, and Maven")
        return
    with timed(f"jars: {', '.join(stale)}"):
        fetch_jars(machine, source, stale)
    for name in stale:
        write_stamp(machine.jars / f"{name}.stamp", wanted[name])


def fetch_jars(machine: Machine, source: Path, names: Iterable[str]) -> None:
    """Into a directory beside the final one, which is replaced when all of them are there."""
    partial = machine.jars / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    target = f"-Djars.directory={partial}/${{project.artifactId}}"
    # -U: a download that failed once is tried again
    machine.run(
        "mvn",
        "-q",
        "-B",
        "-U",
        "-Dstyle.color=never",
        "-f",
        source / "pom.xml",
        "-pl",
        ",".join(names),
        target,
        "package",
        # Otherwise the output ends with escape sequences even without colours
        MAVEN_OPTS=f"{machine.environment.get('MAVEN_OPTS', '')} -Djansi.noreset=true".strip(),
    )
    for name in names:
        shutil.rmtree(machine.jars / name, ignore_errors=True)
        (partial / name).rename(machine.jars / name)
    shutil.rmtree(partial)


def kcat(machine: Machine) -> None:
    """The program kcat from the system's packages; installed only by someone who is root already."""
    if shutil.which("kcat") is not None:
        return
    if shutil.which("apt-get") is None:
        missing(machine, "kcat is not on the path (on macOS: brew install kcat)")
        return
    if not machine.is_root:
        missing(machine, "kcat is not on the path: sudo apt-get install kcat")
        return
    with timed("kcat"):
        install = ("apt-get", "install", "--yes", "--no-install-recommends", "-qq", "-o", "Dpkg::Use-Pty=0", "kcat")
        try:
            machine.run(*install, DEBIAN_FRONTEND="noninteractive")
        except InstallError:  # a new machine has no package lists yet
            machine.run("apt-get", "update", "-qq")
            machine.run(*install, DEBIAN_FRONTEND="noninteractive")


def go(machine: Machine) -> None:
    """The programs of compat_tests/go into build/go; go.sum has the checksum of every module."""
    source = machine.root / "compat_tests" / "go"
    shared = sorted((source / "lines").iterdir())
    wanted = {
        name: digest(verb, package, *shared, *sorted((source / module).iterdir()))
        for name, (verb, module, package) in GO_PROGRAMS.items()
    }
    stale = [name for name in GO_PROGRAMS if not is_current(machine.go_programs / f"{name}.stamp", wanted[name])]
    if not stale:
        return
    if shutil.which("go") is None:
        missing(machine, "go is not on the path: install Go, version 1.26 or newer")
        return
    with timed(f"go clients: {', '.join(stale)}"):
        for name in stale:
            verb, module, package = GO_PROGRAMS[name]
            target = machine.go_programs / name
            target.unlink(missing_ok=True)
            # -buildvcs: a tree whose owner is another is no reason to fail
            options = ("-C", source / module, "-mod=readonly", "-buildvcs=false", "-o", target)
            words = verb.split()
            try:
                machine.run("go", words[0], *options[:2], *words[1:], *options[2:], package)
            except InstallError as error:  # also a Go that is too old and fetches no newer one by itself
                missing(machine, f"{error}\n{name} is not built (it needs Go 1.26 or newer)")
                continue
            write_stamp(machine.go_programs / f"{name}.stamp", wanted[name])


def node(machine: Machine) -> None:
    """Install compat_tests/node's package-lock.json into build/node, which is replaced once complete."""
    manifest = [machine.root / "compat_tests" / "node" / name for name in NODE_MANIFEST]
    stamp, wanted = machine.node_packages.with_suffix(".stamp"), digest(*manifest)
    if is_current(stamp, wanted):
        return
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing(machine, "node or npm is not on the path: install Node.js, version 18 or newer")
        return
    partial = machine.node_packages.with_suffix(".partial")
    with timed("node packages"):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for file in manifest:
            shutil.copy(file, partial)
        machine.run("npm", "ci", "--prefix", partial, "--ignore-scripts", "--no-audit", "--no-fund")
        shutil.rmtree(machine.node_packages, ignore_errors=True)
        partial.rename(machine.node_packages)
    write_stamp(stamp, wanted)


def old(machine: Machine) -> None:
    """Old clients from PyPI, each in a directory of its own in build/old: in the environment are the newest."""
    source = machine.root / "compat_tests" / "matrix" / "python" / "old"
    unpack_all(machine, "old clients", source, machine.old_clients, OLD_CLIENTS)


def connect(machine: Machine) -> None:
    """The thin client of Spark Connect, without Spark, in build/spark."""
    unpack_sparks(machine, CONNECT_CLIENTS)


def sparks(machine: Machine) -> None:
    """Other versions of Spark, 450 MB each, in build/spark; only `make soak` needs them."""
    unpack_sparks(machine, SPARKS)


def unpack_sparks(machine: Machine, versions: Mapping[str, tuple[str, ...]]) -> None:
    runtime(machine)  # has the build backend
    unpack_all(machine, "versions of Spark", machine.root / "compat_tests" / "spark_versions", machine.sparks, versions)


def unpack_all(
    machine: Machine, what: str, source: Path, target: Path, packages: Mapping[str, tuple[str, ...]]
) -> None:
    """Unpack packages from PyPI side by side: name -> options of pip; `source` has a lock for each."""
    wanted = {name: digest(source / f"{name}.txt", *options) for name, options in packages.items()}
    stale = [name for name in packages if not is_current(target / f"{name}.stamp", wanted[name])]
    foreign = [name for name in stale if packages[name] == OLD_LINUX and not machine.is_linux_x86_64]
    if foreign:
        missing(machine, f"{', '.join(foreign)}: there are wheels for Linux on x86-64 only")
    here = [name for name in stale if name not in foreign]
    if not here:
        return
    environment(machine)
    with timed(f"{what}: {', '.join(here)}"):
        for name in here:
            unpack(machine, target / name, source / f"{name}.txt", packages[name])
            write_stamp(target / f"{name}.stamp", wanted[name])


def unpack(machine: Machine, target: Path, lock: Path, options: Sequence[str]) -> None:
    """One package, and what its lock names besides, into a directory which is replaced when all of it is there."""
    partial = target.parent / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    all_options = ("--require-hashes", "--no-deps", "--only-binary=:all:", *options)
    pip_install(machine, *all_options, "--target", partial, "-r", lock)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


PARTS: Final = {
    "runtime": runtime,
    "test": test,
    "spark": spark,
    "lock": lock,
    "jars": jars,
    "kcat": kcat,
    "go": go,
    "node": node,
    "old": old,
    "connect": connect,
    "sparks": sparks,
}


# They touch nothing of the virtual environment
APART: Final = frozenset({"jars", "kcat", "go", "node"})


def install_all(machine: Machine, names: Sequence[str]) -> None:
    """Parts of the virtual environment one after another, all others beside them; raises the first failure."""
    with ThreadPoolExecutor(len(APART)) as pool:
        beside = [pool.submit(PARTS[name], machine) for name in names if name in APART]
        for name in names:
            if name not in APART:
                PARTS[name](machine)
        for part in beside:
            part.result()


def this_machine() -> Machine:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    is_linux_x86_64 = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    return Machine(Path(__file__).resolve().parents[2], os.environ, is_root, is_linux_x86_64)


def main(names: list[str]) -> int:
    """Install the named parts."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"install: there is no {', '.join(unknown)}; the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if sys.version_info < OLDEST:
        print(f"Headgate needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    machine = this_machine()
    try:
        with alone(machine.root / "build" / "install.lock"):
            install_all(machine, names)
    except InstallError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("install: interrupted; the next run starts over where it must", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
