"""`headgate spark jars`: the exact jars for the installed PySpark, fetched by Maven or from a folder, checksums pinned.

Standard output is the value of `spark.jars`: paths separated by commas. Spark then asks no repository at run time, as
it does for `spark.jars.packages`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from headgate.spark.jar_sets import CONNECTOR, EXTRAS, SETS, Jar
from headgate.tools.output import CommandResult, Row, add_format_options, format_table, print_result

_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_CHUNK_BYTES: Final = 1 << 20


class JarsMissing(Exception):
    """No jars, or wrong ones; the text says which, and what to do."""


class NoWholeSet(JarsMissing):
    """The wanted jars are not all published for this version of Spark."""


# ---------------------------------------------------------------------------------------------------- which jars, where


def installed_pyspark() -> str | None:
    """The version of PySpark in this environment, without importing it; None without PySpark."""
    for name in ("pyspark", "pyspark-connect", "pyspark-client"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def jar_set(spark: str, extras: Iterable[str] = ()) -> tuple[Jar, ...]:
    """The jars of the connector and of `extras` for a version of Spark. Raises NoWholeSet, which names the nearest."""
    names = (CONNECTOR, *extras)
    for name in names:
        if name not in (CONNECTOR, *EXTRAS):
            raise NoWholeSet(f"there is no set {name!r}; the sets are {', '.join(EXTRAS)}")
    there = SETS.get(spark, {})
    lacking = [name for name in names if name not in there]
    if lacking:
        whole = [version for version in SETS if all(name in SETS[version] for name in names)]
        nearest = min(whole, key=lambda version: abs(_place(version) - _place(spark)))
        raise NoWholeSet(
            f"there is no whole set of jars for Spark {spark}: it lacks {', '.join(lacking)}. The nearest version with "
            f"{', '.join(names)} is {nearest}: pip install pyspark=={nearest}"
        )
    return tuple(jar for name in names for jar in there[name])


def _place(version: str) -> int:
    """A number that is near for near versions; of `4.2.0.dev1` too."""
    numbers = [int(part) if part.isdecimal() else 0 for part in version.split(".")[:3]]
    major, minor, patch, *_ = (*numbers, 0, 0, 0)
    return (major * 100 + minor) * 100 + patch


def default_folder(spark: str, environment: Mapping[str, str]) -> Path:
    """The folder of the jars of a version of Spark: `HEADGATE_JARS`, or one in the user's cache."""
    named = environment.get("HEADGATE_JARS")
    if named:
        return Path(named)
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "headgate" / f"spark-{spark}"


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def is_right(jar: Jar, path: Path) -> bool:
    """True if the file exists and has the pinned checksum."""
    return path.is_file() and sha256(path) == jar.sha256


def spark_jars(jars: Iterable[Jar], folder: Path) -> str:
    """The value of `spark.jars`. Raises JarsMissing for a jar that is missing or damaged."""
    wrong = [jar.file for jar in jars if not is_right(jar, folder / jar.file)]
    if wrong:
        raise JarsMissing(f"{', '.join(wrong)} missing or damaged in {folder}: run `headgate spark jars`")
    return ",".join(str(folder / jar.file) for jar in jars)


# ------------------------------------------------------------------------------------------------------------- fetching


def fetch_from_folder(jars: Iterable[Jar], source: Path, folder: Path) -> None:
    """Copy the jars from a folder: flat, or a Maven repository. Raises JarsMissing."""
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars:
        if is_right(jar, folder / jar.file):
            continue
        found = [path for path in (source / jar.file, source / jar.repository_path) if path.is_file()]
        if not found:
            raise JarsMissing(f"{source} has neither {jar.file} nor {jar.repository_path}")
        _publish(jar, found[0], folder)


def fetch_by_maven(jars: Sequence[Jar], folder: Path) -> None:
    """Fetch the jars with Maven, by the user's own settings and mirrors. Raises JarsMissing."""
    if all(is_right(jar, folder / jar.file) for jar in jars):
        return
    program = shutil.which("mvn")
    if program is None:
        raise JarsMissing("mvn is not on the path: install Maven, or name a folder with the jars: --from FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headgate-jars-") as temporary:
        place = Path(temporary)
        (place / "pom.xml").write_text(_pom(jars))
        command = [program, "-q", "-B", "-U", "-Dstyle.color=never", "-f", str(place / "pom.xml"), _PLUGIN]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={place / 'jars'}"], check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise JarsMissing(f"Maven failed:\n{(done.stdout + done.stderr).strip()}")
        for jar in jars:
            _publish(jar, place / "jars" / jar.file, folder)


def _publish(jar: Jar, source: Path, folder: Path) -> None:
    """Copy one file into the folder under its name, whole or not at all. Raises JarsMissing for a wrong checksum."""
    found = sha256(source)
    if found != jar.sha256:
        raise JarsMissing(f"{source} has the sha256 {found}, not {jar.sha256}: it is not {jar.coordinates}")
    partial = folder / f".{jar.file}.{os.getpid()}"
    try:
        shutil.copyfile(source, partial)
        partial.replace(folder / jar.file)
    finally:
        partial.unlink(missing_ok=True)


def _pom(jars: Iterable[Jar]) -> str:
    """A project that depends on these jars alone: Spark brings the rest."""
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
        f"</exclusion></exclusions></dependency>"
        for jar in jars
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>headgate</groupId><artifactId>jars</artifactId><version>0</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark jars <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    result = run(options, os.environ)
    return print_result("spark jars", result, options, format_table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate spark jars",
        description="Fetch the exact jars for the installed PySpark, and print the value of spark.jars.",
    )
    parser.add_argument("--spark", metavar="version", help="default: the installed PySpark")
    parser.add_argument("--with", dest="extras", default=[], type=_names, metavar=",".join(EXTRAS), help="further sets")
    parser.add_argument("--from", dest="source", type=Path, metavar="folder", help="jars, or a Maven repository")
    parser.add_argument("--to", dest="folder", type=Path, metavar="folder", help="default: in the user's cache")
    parser.add_argument("--list", action="store_true", help="fetch nothing: print coordinates and checksums")
    add_format_options(parser)
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in EXTRAS]
    if wrong:
        raise argparse.ArgumentTypeError(f"there is no set {wrong[0]!r}; the sets are {', '.join(EXTRAS)}")
    return list(dict.fromkeys(names))


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> CommandResult:
    spark = options.spark or installed_pyspark()
    if spark is None:
        return CommandResult(failures=["PySpark is not installed here: pip install 'headgate[spark]', or name --spark"])
    try:
        jars = jar_set(spark, options.extras)
        if options.list:
            return CommandResult([_row(spark, jar) for jar in jars])
        folder = (options.folder or default_folder(spark, environment)).absolute()
        if options.source is not None:
            fetch_from_folder(jars, options.source, folder)
        else:
            fetch_by_maven(jars, folder)
        return CommandResult(document=spark_jars(jars, folder))
    except (JarsMissing, OSError) as error:
        return CommandResult(failures=[str(error)])


def _row(spark: str, jar: Jar) -> Row:
    return {"spark": spark, "group": jar.group, "artifact": jar.artifact, "version": jar.version, "sha256": jar.sha256}
