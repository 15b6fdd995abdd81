"""What these tests need from the machine, found or named.

A missing tool skips its tests by name on a person's machine and fails them where `CI=true`: a green run in CI means
that every client was really there.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from compat_tests.harness import apache_kafka

# The second compiler of the compiler's JVM would double its work
QUICK_COMPILER = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
COMPILED = apache_kafka.ROOT / "build" / "compat"
NODE_PACKAGES = apache_kafka.ROOT / "build" / "node" / "node_modules"
NODE_ENVIRONMENT = {"NODE_PATH": str(NODE_PACKAGES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


def is_ci() -> bool:
    """Whether everything has to be there."""
    return os.environ.get("CI", "").lower() in {"true", "1"}


def missing(sentence: str) -> NoReturn:
    """End the running test: as a failure where CI=true, as a skip by name elsewhere."""
    if is_ci():
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def program(name: str, remedy: str) -> str:
    """The path of a program, or the end of the test."""
    return shutil.which(name) or missing(f"{name} is not on the path: {remedy}")


def module(name: str, remedy: str) -> None:
    """End the test unless the Python module can be imported."""
    if importlib.util.find_spec(name) is None:
        missing(f"the Python module {name} is not installed: {remedy}")


def jars(jar_set: str) -> str:
    """The class path of a jar set (a folder of build/jars), or the end of the test where it or Java is not here."""
    if sentence := apache_kafka.missing(jar_set):
        missing(sentence)
    return str(apache_kafka.JARS / jar_set / "*")


def go_program(name: str) -> str:
    """The path of a program of compat_tests/go, or the end of the test where it was not built."""
    path = apache_kafka.ROOT / "build" / "go" / name
    return str(path) if path.exists() else missing(f"{path} is not built: install Go 1.26 and run `make install`")


def node_program(name: str) -> list[str]:
    """The command line of a program of compat_tests/node, or the end of the test where its packages are not installed.

    It is run in an environment with NODE_ENVIRONMENT. The old clients use functions that are deprecated by now.
    """
    if not NODE_PACKAGES.exists():
        missing(f"{NODE_PACKAGES} is not there: install Node.js 18 and run `make install`")
    source = apache_kafka.ROOT / "compat_tests" / "node" / f"{name}.js"
    return [program("node", "install Node.js"), "--no-deprecation", str(source)]


def old_client(name: str) -> Path:
    """The directory of an old client from PyPI, or the end of the test where it is not unpacked."""
    path = apache_kafka.ROOT / "build" / "old" / name
    return path if path.exists() else missing(f"{path} is not there: run `make install` (on Linux with x86-64)")


@functools.cache
def compiled_java(jar_set: str) -> str:
    """Compile compat_tests/java/<jar set>/src against the set, if a source is newer; the class path that runs it."""
    classes = jars(jar_set)
    return os.pathsep.join((compiled(jar_set, classes), classes))


@functools.cache
def compiled(source: str, classes: str) -> str:
    """Compile compat_tests/java/<source>/src, if a file of it is newer; return the jar of the classes.

    One process compiles, the others wait.
    """
    compiler = program("javac", "install a JDK, version 17 or newer")
    sources = sorted((apache_kafka.ROOT / "compat_tests" / "java" / source / "src").glob("*.java"))
    directory = COMPILED / source
    jar = directory / "programs.jar"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists() or jar.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            with tempfile.TemporaryDirectory(dir=directory) as scratch:
                options = ("-Xlint:all", "-Werror", "-proc:none", "--release", "17", "-cp", classes, "-d", scratch)
                subprocess.run([compiler, *QUICK_COMPILER, *options, *map(str, sources)], check=True, timeout=120)
                Path(shutil.make_archive(f"{directory}/packed", "zip", scratch)).replace(jar)
    return str(jar)
