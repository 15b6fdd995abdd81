"""Each check alone, over what it is given; then the command over this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.spark import doctor
from headgate.spark.executors import ExecutorReport, NoExecutor
from headgate.spark.installation import Installation
from headgate.spark.jar_sets import Jar
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.advertised import AdvertisedAddress

CONTENT = b"a jar"
JAR = Jar("org.example:thing_2.13:1.0", hashlib.sha256(CONTENT).hexdigest())


def installation(**changed: Any) -> Installation:
    plain = Installation(
        spark="4.1.1",
        python="3.11.2",
        packages={"numpy": "2.1", "pyarrow": "23.0", "pandas": None},
        java="17.0.12",
        java_home="/jdk",
        home_jars=["spark-core_2.13-4.1.1.jar"],
        settings={},
        worker="/no/such/python",
        source_worker="/no/such/python",
        maven_repository=Path("/no/repository"),
        own_address="127.0.0.1",
    )
    return plain._replace(**changed)


def states(findings: Iterator[CheckResult]) -> dict[str, str]:
    return {one.check: one.state for one in findings}


@pytest.mark.parametrize("spark, state", [("4.1.1", OK), ("4.0.0", OK), ("4.3.0", WRONG), (None, WRONG)])
def test_pyspark_has_a_whole_set(spark: str | None, state: str) -> None:
    assert doctor.check_pyspark(installation(spark=spark)).state == state


def test_pandas_is_below_3_or_absent() -> None:
    packages = {"numpy": "2.1", "pyarrow": None}
    assert states(doctor.check_packages(packages)) == {"numpy": OK, "pyarrow": WRONG, "pandas": OK}
    assert states(doctor.check_packages({**packages, "pandas": "3.0.1"}))["pandas"] == WRONG
    assert states(doctor.check_packages({**packages, "pandas": "2.3.3"}))["pandas"] == OK


@pytest.mark.parametrize(
    "version, place, state",
    [
        ("17.0.12", "/jdk", OK),
        ("21", "/jdk", OK),
        ("25.0.1", "/jdk", NOTE),
        ("11.0.2", "/jdk", WRONG),
        ("1.8.0_402", "/jdk", WRONG),
        (None, "/jdk", NOTE),
        (None, "", WRONG),
    ],
)
def test_java_is_17_or_21(version: str | None, place: str, state: str) -> None:
    assert doctor.check_java(version, place).state == state


@pytest.mark.parametrize(
    "names, state",
    [
        (["spark-core_2.13-4.1.1.jar"], OK),
        (["spark-core_2.12-4.1.1.jar"], WRONG),
        (["spark-core_2.13-4.0.0.jar"], WRONG),
        ([], WRONG),
    ],
)
def test_scala_and_the_home_of_spark(names: list[str], state: str) -> None:
    assert doctor.check_scala("4.1.1", names).state == state


def test_the_connector_is_whole(tmp_path: Path) -> None:
    assert doctor.check_connector([JAR], tmp_path, []).state == NOTE
    (tmp_path / JAR.file).write_bytes(CONTENT)
    assert doctor.check_connector([JAR], tmp_path, ["other-1.0.jar", JAR.file]).state == OK
    assert doctor.check_connector([JAR, Jar("g:more:1", "")], tmp_path, []).state == WRONG
    assert "thing_2.13-0.9.jar" in doctor.check_connector([JAR], tmp_path, ["thing_2.13-0.9.jar"]).cure


def test_jars_of_another_scala_or_spark() -> None:
    kafka = "org.apache.spark:spark-sql-kafka-0-10_2.13"
    assert not list(doctor.check_named_jars({"spark.jars.packages": f"{kafka}:4.1.1"}, "4.1.1"))
    found = doctor.check_named_jars({"spark.jars.packages": f"{kafka}:4.0.0", "spark.jars": "/a_2.12-1.jar"}, "4.1.1")
    assert states(found) == {"spark.jars.packages": WRONG, "spark.jars": WRONG}


def report(**changed: str | None) -> Mapping[str, str | None]:
    return {"python": "3.11.9", **dict.fromkeys(doctor.WORKER_PACKAGES, "1"), **changed}


@pytest.mark.parametrize(
    "found, state, words",
    [
        (report(), OK, "Python 3.11.9"),
        (report(python="3.12.1"), WRONG, "the driver is 3.11.2"),
        (report(pyarrow=None, cramjam=None), WRONG, "no pyarrow, cramjam"),
        (None, WRONG, "does not run"),
    ],
)
def test_the_worker_is_like_the_driver(found: Mapping[str, str | None] | None, state: str, words: str) -> None:
    (one,) = doctor.check_worker("/python", found, "3.11.2")
    assert one.state == state
    assert words in one.found
    assert (state == OK) == (not one.cure)


def test_the_format_headgate_may_have_another_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "probe_worker", lambda python: report() if python == "/packed" else None)
    found = list(doctor.examine(installation(python="3.11.2", worker="/packed", source_worker="python3"), {}))
    states_of_workers = [(one.state, one.found) for one in found if one.check == "worker"]
    assert states_of_workers == [
        (OK, "/packed, Python 3.11.9"),
        (WRONG, "python3 of the format headgate does not run"),
    ]


def test_push_down_is_off_by_default() -> None:
    assert doctor.check_push_down({}).state == OK
    assert doctor.check_push_down({doctor.PUSH_DOWN: " True"}).state == NOTE


def test_poms_without_jars(tmp_path: Path) -> None:
    folder = (tmp_path / JAR.repository_path).parent
    folder.mkdir(parents=True)
    (folder / "thing_2.13-1.0.pom").touch()
    other = tmp_path / "org/slf4j/slf4j-api/2.0.16"
    other.mkdir(parents=True)
    (other / "slf4j-api-2.0.16.pom").touch()
    assert [one.state for one in doctor.check_poms(tmp_path, [JAR])] == [WRONG, NOTE]
    (folder / JAR.file).touch()
    (other / "slf4j-api-2.0.16.jar").touch()
    assert [one.state for one in doctor.check_poms(tmp_path, [JAR])] == [OK]


def test_the_own_address() -> None:
    assert doctor.check_local_address(None, {}).state == WRONG
    assert doctor.check_local_address(None, {"SPARK_LOCAL_IP": "127.0.0.1"}).state == OK
    assert doctor.check_local_address("10.0.0.1", {}).state == OK


@pytest.mark.sockets
def test_a_bootstrap_that_does_not_answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_installation", lambda environment, worker: installation())
    assert doctor.main(["--json", "--bootstrap-server", "127.0.0.1:1"]) == 3
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["check"], last["state"]) == ("broker", WRONG)
    assert "no broker answers" in last["found"]


def test_executors_tell_what_they_reach_and_have() -> None:
    have = {"python": "3.11.2", **dict.fromkeys(doctor.WORKER_PACKAGES, "1"), "pyspark": None}
    answers = [
        ExecutorReport("good", "/python", {"b:9092": None}, have),
        ExecutorReport("bad", "/python", {"b:9092": "Connection refused"}, {**have, "numpy": None}),
    ]
    found = list(doctor.check_executors(answers))
    assert [one.state for one in found] == [OK, OK, WRONG, WRONG]
    assert "has no numpy" in found[2].found
    assert found[3].found == "bad does not reach b:9092: Connection refused"
    assert "advertised.listeners" in found[3].cure


@pytest.mark.sockets
def test_a_cluster_is_asked_and_a_local_master_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def ask(settings: Mapping[str, str], python: str, addresses: list[str], packages: Any, **limits: float) -> Any:
        asked.append((dict(settings), python, addresses))
        raise NoExecutor("no task ended within 60 s")

    monkeypatch.setattr(doctor, "find_installation", lambda environment, worker: installation())
    monkeypatch.setattr(doctor, "dial_advertised", lambda *_: [AdvertisedAddress(0, "b:9092")])
    monkeypatch.setattr(doctor, "ask_executors", ask)
    words = ["--json", "--bootstrap-server", "b:9092", "--conf", "spark.cores.max=2"]
    doctor.main([*words, "--master", "local[2]"])
    assert asked == []
    capsys.readouterr()
    assert doctor.main([*words, "--master", "spark://m:7077"]) == 3
    assert asked == [({"spark.master": "spark://m:7077", "spark.cores.max": "2"}, "/no/such/python", ["b:9092"])]
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["check"], last["found"]) == (
        "executor",
        "spark://m:7077, interpreter /no/such/python: no task ended within 60 s",
    )
    for wrong in (["--master", "spark://m:7077"], ["--conf", "x"]):
        with pytest.raises(SystemExit):
            doctor.main(wrong)


@pytest.mark.sockets
def test_the_command_tells_what_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_installation", lambda environment, worker: installation())
    assert doctor.main(["--json"]) == 3
    out, err = capsys.readouterr()
    rows = {row["check"]: row for row in map(json.loads, out.splitlines())}
    assert rows["java"] == {"check": "java", "state": OK, "found": "17.0.12 at /jdk", "cure": None}
    assert "PYSPARK_PYTHON" in rows["worker"]["cure"]
    assert "1 of 11 checks is wrong" in err
    doctor.main(["--table"])
    assert "worker: export PYSPARK_PYTHON=" in capsys.readouterr().out
