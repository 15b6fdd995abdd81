"""The table of the versions of Kafka's releases is what its generator makes of Kafka's own jars."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from headgate.protocol.census import kafka_versions
from headgate.protocol.schema import Versions
from headgate.protocol.tests.definitions import JARS, missing
from headgate.tools.development.kafka_versions import (
    TABLE,
    in_order,
    main,
    release_of,
    table_text,
    versions_in,
    with_table,
)


def jar_of(directory: Path, release: str, *requests: str) -> Path:
    jar = directory / f"kafka-clients-{release}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for number, text in enumerate(requests):
            archive.writestr(f"common/message/Number{number}Request.json", text)
        archive.writestr("common/message/ProduceResponse.json", "no JSON")
    return jar


def request(api_key: int, versions: str, rest: str = "") -> str:
    return f'// a licence\n{{ "apiKey": {api_key}, // about it\n "validVersions": "{versions}"{rest} }}'.replace(
        " // about it", "\n// about it"
    )


def test_definitions_give_the_served_versions(tmp_path: Path) -> None:
    jar = jar_of(
        tmp_path,
        "4.9.1",
        request(0, "3-13"),
        request(1, "4-19", ', "latestVersionUnstable": true'),
        request(4, "none"),
        request(2, "1-11") + "\n}",
        request(9_999, "0-1"),
        request(3, "0", ', "latestVersionUnstable": true'),
    )
    assert versions_in(jar) == {0: Versions(3, 13), 1: Versions(4, 18), 2: Versions(1, 11)}


@pytest.mark.parametrize(
    "name, release", [("4.0.2", "4.0"), ("4.0.0", "4.0.0"), ("3.9.0", "3.9"), ("10.11.12", "10.11")]
)
def test_a_jar_stands_for_its_minor_release(name: str, release: str) -> None:
    assert release_of(Path(f"jars/kafka-clients-{name}.jar")) == release


def test_another_jar_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no kafka-clients-x.y.z.jar"):
        release_of(Path("kafka_2.13-4.1.2.jar"))


def test_releases_are_in_the_order_of_their_numbers() -> None:
    assert in_order(["4.0", "3.9", "3.10", "4.0.0", "10.1"]) == ["3.9", "3.10", "4.0.0", "4.0", "10.1"]


def test_the_table_in_the_tree_is_what_it_says_itself() -> None:
    releases = {name: kafka_versions.release(name) for name in kafka_versions.RELEASES}
    written = with_table(TABLE.read_text(), table_text(releases))
    assert written.split() == TABLE.read_text().split(), "run the generator with no change"


def test_a_newer_jar_adds_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "kafka_versions.py"
    table.write_text(TABLE.read_text())
    monkeypatch.setattr("headgate.tools.development.kafka_versions.TABLE", table)
    main([str(jar_of(tmp_path, "9.1.0", request(0, "5-20")))])
    found: dict[str, object] = {}
    exec(table.read_text(), found)
    assert found["RELEASES"] == (*kafka_versions.RELEASES, "9.1")
    release = found["release"]
    assert callable(release)
    assert (release("9.1"), release("4.1")) == ({0: Versions(5, 20)}, kafka_versions.release("4.1"))


@pytest.mark.sockets
def test_the_table_is_made_of_kafkas_jars() -> None:
    """`sockets`: the jars are those of `make jars`."""
    jars = {release_of(jar): jar for jar in JARS.glob("*/kafka-clients-*.jar") if has_definitions(jar)}
    if not {"2.8", "3.9", "4.1", kafka_versions.newest()} <= jars.keys():
        missing(f"{JARS} lacks jars of Kafka, or has newer ones than the table: {json.dumps(sorted(jars))}")
    for release, jar in jars.items():
        assert kafka_versions.release(release) == versions_in(jar), f"run the generator with {jar}"


def has_definitions(jar: Path) -> bool:
    with zipfile.ZipFile(jar) as archive:
        return "common/message/FetchRequest.json" in archive.namelist()
