"""Jars are chosen by version, copied whole, and checked; Maven is a program of the test."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import pytest

from headgate.spark import jars
from headgate.spark.jar_sets import Jar
from headgate.spark.jars import JarsMissing, NoWholeSet, default_folder, fetch_from_folder, jar_set, spark_jars

CONTENT = b"the content of a jar"
JAR = Jar("org.example:thing_2.13:1.0", hashlib.sha256(CONTENT).hexdigest())


def test_the_set_of_a_version_with_extras() -> None:
    files = [jar.file for jar in jar_set("4.1.1", ["avro", "delta"])]
    assert files[0] == "spark-sql-kafka-0-10_2.13-4.1.1.jar"
    assert files[-3:] == ["spark-avro_2.13-4.1.1.jar", "delta-spark_4.1_2.13-4.1.0.jar", "delta-storage-4.1.0.jar"]


@pytest.mark.parametrize(
    "spark, extras, nearest",
    [
        ("4.0.1", [], "4.0.0"),
        ("4.1.0", [], "4.1.1"),
        ("4.3.0", [], "4.2.0"),
        ("4.3.0.dev1", ["avro"], "4.1.1"),
        ("4.2.0", ["iceberg"], "4.1.1"),
        ("3.5.6", [], "4.0.0"),
        ("4", [], "4.0.0"),
    ],
)
def test_a_version_without_a_whole_set_hears_of_the_nearest(spark: str, extras: list[str], nearest: str) -> None:
    with pytest.raises(NoWholeSet, match=rf"pip install pyspark=={nearest}$"):
        jar_set(spark, extras)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(NoWholeSet, match="the sets are avro, delta, iceberg"):
        jar_set("4.1.1", ["hudi"])


@pytest.mark.parametrize("path", ["thing_2.13-1.0.jar", "org/example/thing_2.13/1.0/thing_2.13-1.0.jar"])
def test_jars_come_from_a_folder_or_a_repository(tmp_path: Path, path: str) -> None:
    source = tmp_path / "source" / path
    source.parent.mkdir(parents=True)
    source.write_bytes(CONTENT)
    fetch_from_folder([JAR], tmp_path / "source", tmp_path / "jars")
    assert spark_jars([JAR], tmp_path / "jars") == str(tmp_path / "jars" / JAR.file)
    source.unlink()
    fetch_from_folder([JAR], tmp_path / "source", tmp_path / "jars")  # it is there already


def test_a_wrong_checksum_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / JAR.file).write_bytes(b"another content")
    with pytest.raises(JarsMissing, match=r"has the sha256 .*: it is not org\.example:thing_2\.13:1\.0"):
        fetch_from_folder([JAR], tmp_path, tmp_path / "jars")
    assert not list((tmp_path / "jars").iterdir())


def test_a_damaged_jar_is_replaced(tmp_path: Path) -> None:
    (tmp_path / JAR.file).write_bytes(CONTENT)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / JAR.file).write_bytes(CONTENT[:-1])
    with pytest.raises(JarsMissing, match="missing or damaged"):
        spark_jars([JAR], tmp_path / "jars")
    fetch_from_folder([JAR], tmp_path, tmp_path / "jars")
    assert spark_jars([JAR], tmp_path / "jars")


def test_a_folder_without_the_jar_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(JarsMissing, match=r"neither thing_2\.13-1\.0\.jar nor org/example/"):
        fetch_from_folder([JAR], tmp_path, tmp_path / "jars")


def test_without_maven_the_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(JarsMissing, match="--from FOLDER"):
        jars.fetch_by_maven([JAR], tmp_path / "jars")


MAVEN = """#!/bin/sh
for word in "$@"; do case $word in -DoutputDirectory=*) folder=${word#*=};; esac; done
mkdir -p "$folder" && printf '%s' 'the content of a jar' > "$folder/thing_2.13-1.0.jar"
"""


@pytest.mark.sockets
def test_maven_fetches_into_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mvn"
    program.write_text(MAVEN)
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(program))
    jars.fetch_by_maven([JAR], tmp_path / "jars")
    assert (tmp_path / "jars" / JAR.file).read_bytes() == CONTENT
    program.unlink()
    jars.fetch_by_maven([JAR], tmp_path / "jars")  # all there: Maven is not called


def test_the_folder_is_in_the_cache_or_named() -> None:
    assert default_folder("4.1.1", {"XDG_CACHE_HOME": "/c"}) == Path("/c/headgate/spark-4.1.1")
    assert default_folder("4.1.1", {"HEADGATE_JARS": "/jars"}) == Path("/jars")
    assert default_folder("4.1.1", {}) == Path.home() / ".cache/headgate/spark-4.1.1"


def test_the_list_fetches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert jars.main(["--spark", "4.1.1", "--with", "avro", "--list", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 5
    with pytest.raises(SystemExit):
        jars.main(["--with", "hudi"])


def test_no_pyspark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "installed_pyspark", lambda: None)
    options = argparse.Namespace(spark=None, extras=[], list=True)
    assert "name --spark" in jars.run(options, {}).failures[0]
