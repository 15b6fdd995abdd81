from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headgate.storage.disk.layout import Meta
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.host.directories import DirectoryFacts, check_directories, count_segments, read_directory
from headgate.tools.doctor.host.processes import ProcessFacts
from headgate.tools.doctor.inspection import BrokerValues

META = Meta("4JmnpzYsThhtm8N2e63GXA", 1, "")
VALUES = BrokerValues(1, True, ("/data",), (), (), (), None, 1, 1, 1)
HOLDERS = {7: ProcessFacts(7, "headgate")}
HELD = DirectoryFacts("/data", exists=True, meta=META, holder=7, partitions=3)


def check(*found: DirectoryFacts, values: BrokerValues = VALUES, listening: Any = (9092,)) -> list[CheckResult]:
    return list(check_directories(found, values, HOLDERS, listening))


@pytest.mark.parametrize(
    "found, state, words",
    [
        (HELD, OK, "is of node 1 in cluster 4JmnpzYsThhtm8N2e63GXA, 3 partitions; process 7 (headgate) has it"),
        (HELD._replace(holder=None, is_clean=True), OK, "no broker has it"),
        (HELD._replace(holder=None), NOTE, "the last stop was not clean"),
        (DirectoryFacts("/data", exists=False), OK, "does not exist yet"),
        (DirectoryFacts("/data", exists=True), OK, "is new"),
        (HELD._replace(meta=META._replace(node_id=2)), WRONG, "belongs to node.id=2, the settings have 1"),
        (HELD._replace(meta=None), WRONG, "3 partitions and no meta.properties"),
        (HELD._replace(problem="meta.properties names no node.id; write it"), WRONG, "names no node.id"),
    ],
)
def test_one_directory(found: DirectoryFacts, state: str, words: str) -> None:
    [row] = check(found)
    assert row.state == state
    assert words in row.found


def test_a_process_with_the_lock_that_does_not_listen() -> None:
    assert check(HELD, listening=())[0].state == WRONG
    assert check(HELD, listening=None)[0].state == OK


def test_a_node_id_of_the_default_fits_every_directory() -> None:
    assert (
        check(HELD._replace(meta=META._replace(node_id=2)), values=VALUES._replace(is_node_given=False))[0].state == OK
    )


def test_entries_of_another_owner() -> None:
    rows = check(HELD._replace(foreign=["orders-0"]))
    assert (rows[-1].state, "orders-0" in rows[-1].found) == (WRONG, True)


def test_directories_of_two_clusters() -> None:
    rows = check(HELD, HELD._replace(path="/two", meta=META._replace(cluster_id="hlBugjexpdjw4Gap53wA1A")))
    assert rows[-1].found.startswith("the directories are of different brokers")


def test_a_directory_is_read(tmp_path: Path) -> None:
    assert not read_directory(str(tmp_path / "none")).exists
    (tmp_path / "meta.properties").write_text("cluster.id=4JmnpzYsThhtm8N2e63GXA\nnode.id=1\nversion=1\n")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    (tmp_path / ".kafka_cleanshutdown").touch()
    found = read_directory(f"{tmp_path}/")
    assert found == DirectoryFacts(str(tmp_path), exists=True, meta=META, is_clean=True, partitions=1, foreign=[])
    assert count_segments([str(tmp_path)]) == 1
    (tmp_path / "meta.properties").write_text("nothing\n")
    assert "names no node.id" in (read_directory(str(tmp_path)).problem or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_owner_is_found(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    os.chown(tmp_path / "orders-0", 1234, 1234)
    assert read_directory(str(tmp_path)).foreign == ["orders-0"]
