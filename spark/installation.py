"""The installation for Spark on this machine, found without a JVM: Java, Spark, the workers' interpreter, settings."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from headgate.spark.jars import installed_pyspark

_PACKAGES: Final = ("numpy", "pandas", "pyarrow")
_PROBE_S: Final = 20.0
_PROBE: Final = """
import json, platform
from importlib import metadata
found = {"python": platform.python_version()}
for name in ("pyspark", "numpy", "pyarrow", "cramjam", "headgate"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


class Installation(NamedTuple):
    """`spark`: version of the Python package. `home_jars`: file names in Spark's home. `worker`: the workers' Python.

    `source_worker`: the Python of the format `headgate`, which Spark's client mode finds by the environment alone.
    `java`: a version as 17.0.12; None if no file in `java_home` has the version. `own_address`: of this host's name.
    """

    spark: str | None
    python: str
    packages: Mapping[str, str | None]
    java: str | None
    java_home: str
    home_jars: Sequence[str]
    settings: Mapping[str, str]
    worker: str
    source_worker: str
    maven_repository: Path
    own_address: str | None


def find_installation(environment: Mapping[str, str], worker: str | None = None) -> Installation:
    """Look at this machine; `worker` replaces the interpreter that Spark would choose."""
    home = spark_home(environment)
    settings = read_settings(environment, home)
    java_home = find_java_home(environment)
    by_environment = environment.get("PYSPARK_PYTHON") or "python3"
    return Installation(
        spark=installed_pyspark(),
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
        java=read_java_version(Path(java_home)) if java_home else None,
        java_home=java_home,
        home_jars=sorted(path.name for path in (home / "jars").glob("*.jar")) if home else (),
        settings=settings,
        worker=worker or settings.get("spark.pyspark.python") or by_environment,
        source_worker=worker or environment.get("PYSPARK_DRIVER_PYTHON") or by_environment,
        maven_repository=Path.home() / ".m2" / "repository",
        own_address=_own_address(),
    )


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """SPARK_HOME, or the folder of the package `pyspark`, which is not imported."""
    named = environment.get("SPARK_HOME")
    if named:
        return Path(named)
    package = find_spec("pyspark")
    return (
        Path(next(iter(package.submodule_search_locations))) if package and package.submodule_search_locations else None
    )


def read_settings(environment: Mapping[str, str], home: Path | None) -> dict[str, str]:
    """The settings of spark-defaults.conf; empty without the file."""
    folder = Path(environment["SPARK_CONF_DIR"]) if environment.get("SPARK_CONF_DIR") else home and home / "conf"
    try:
        text = (folder / "spark-defaults.conf").read_text(errors="replace") if folder else ""
    except OSError:
        return {}
    return parse_settings(text)


def parse_settings(text: str) -> dict[str, str]:
    """Names and values of a properties file: divided by white space, `=` or `:`; `#` begins a comment."""
    settings = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        end = next(
            (at for at, character in enumerate(stripped) if character.isspace() or character in "=:"), len(stripped)
        )
        settings[stripped[:end]] = stripped[end:].lstrip().removeprefix("=").removeprefix(":").strip()
    return settings


def find_java_home(environment: Mapping[str, str]) -> str:
    """JAVA_HOME, or the home of the `java` on the path; "" without one."""
    named = environment.get("JAVA_HOME")
    if named:
        return named
    program = shutil.which("java", path=environment.get("PATH"))
    return str(Path(program).resolve().parent.parent) if program else ""


def read_java_version(home: Path) -> str | None:
    """The version in the file `release`; None without it."""
    try:
        lines = (home / "release").read_text(errors="replace").splitlines()
    except OSError:
        return None
    values = [line.partition("=")[2].strip().strip('"') for line in lines if line.startswith("JAVA_VERSION=")]
    return values[0] if values else None


def probe_worker(python: str) -> dict[str, str | None] | None:
    """The versions of Python and of packages that this interpreter has; None if it does not run."""
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_S, check=True)
        report: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return report


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _own_address() -> str | None:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return None


def add_conf_option(parser: argparse.ArgumentParser) -> None:
    """Add `--conf name=value`: settings of Spark."""
    parser.add_argument(
        "--conf", action="append", default=[], type=_setting, metavar="name=value", help="of Spark; may be repeated"
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write name=value")
    return name, value
