"""Several log directories as one store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.directory.log_manager import REFUSAL_MS, LogManager
from headgate.storage.errors import DirectoryLocked, StorageError, WrongDirectory
from headgate.storage.files import Files
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, open_all

Take = Callable[..., LogManager]


class Broken(Files):
    """The disk, on which one directory cannot be used."""

    def __init__(self, broken: str) -> None:
        self.needs_repair = broken

    def lock(self, path: str) -> object:  # type: ignore[override]
        if path.startswith(self.needs_repair):
            raise OSError(5, "Input/output error", path)
        return super().lock(path)


@pytest.fixture
def take(tmp_path: Path) -> Take:
    def take(*names: str, files: Files | None = None, node_id: int = 0, cluster_id: str | None = None) -> LogManager:
        stores = LogManager.take(
            [f"{tmp_path}/{name}" for name in names],
            files=files or Files(), node_id=node_id, config=SMALL, random=Random(1), cluster_id=cluster_id,
        ).claim()  # fmt: skip
        for store in stores:
            open_all(store, NOW_MS)
        return stores

    return take


def create(stores: LogManager, topic: str, partition: int, topic_id: bytes = TOPIC_ID) -> None:
    append(stores.create(topic, partition, topic_id, SMALL, NOW_MS), batch())


def test_new_partitions_go_where_the_fewest_are(take: Take, tmp_path: Path) -> None:
    stores = take("a", "b", "c")
    for partition in range(7):
        create(stores, "t", partition)
    assert [len(store) for store in stores] == [3, 2, 2]
    stores.delete("t", 1)
    create(stores, "u", 0)
    assert [len(store) for store in stores] == [3, 2, 2]
    stores.close()
    again = take("c", "a", "b")
    assert len(again) == 7
    assert again.logs["u", 0].end_offset == 1
    assert again.logs["u", 0].directory == f"{tmp_path}/b/u-0"
    again.close()


class Full(Files):
    """The disk, with directories in which no log can be made."""

    def __init__(self, *full: str) -> None:
        self.full = full
        self.refused = 0
        self.leaves = False

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        if path.endswith(".log") and path.startswith(self.full):
            self.refused += 1
            raise OSError(28, "No space left on device", path)
        super().write(path, data, sync=sync)

    def remove_tree(self, path: str) -> None:
        if not self.leaves:
            super().remove_tree(path)


def create_beside(stores: LogManager, partition: int, *avoided: str) -> None:
    """In another directory than these, if there is one."""
    creation = stores.begin_creation(("t", partition), TOPIC_ID, SMALL, NOW_MS, avoided)
    creation.run()
    stores.end_creation(creation)


def test_new_partitions_do_not_go_where_there_is_hardly_any_room(take: Take, tmp_path: Path) -> None:
    stores = take("a", "b")
    for partition in range(3):
        create_beside(stores, partition, f"{tmp_path}/a")
    assert [len(store) for store in stores] == [0, 3]
    create_beside(stores, 3, f"{tmp_path}/a", f"{tmp_path}/b")
    assert [len(store) for store in stores] == [1, 3], "there is no better one"
    stores.close()


def test_what_a_directory_refuses_is_made_in_another_one(take: Take, tmp_path: Path) -> None:
    files = Full(f"{tmp_path}/a/")
    stores = take("a", "b", files=files)
    for partition in range(3):
        stores.create("t", partition, TOPIC_ID, SMALL, NOW_MS + partition)
    assert [len(store) for store in stores] == [0, 3]
    assert files.refused == 1
    files.full = (f"{tmp_path}/none",)
    stores.create("t", 3, TOPIC_ID, SMALL, NOW_MS + REFUSAL_MS - 1)
    assert [len(store) for store in stores] == [0, 4]
    stores.create("t", 4, TOPIC_ID, SMALL, NOW_MS + REFUSAL_MS)
    assert [len(store) for store in stores] == [1, 4]
    files.full = (f"{tmp_path}/",)
    with pytest.raises(KafkaError, match="No space left"):
        stores.create("t", 5, TOPIC_ID, SMALL, NOW_MS + REFUSAL_MS)
    stores.close()
    assert not list(tmp_path.glob("?/t-5"))


def test_leftovers_of_a_refused_partition_prevent_it_elsewhere(take: Take, tmp_path: Path) -> None:
    files = Full(f"{tmp_path}/a/")
    stores = take("a", "b", files=files)
    files.leaves = True
    with pytest.raises(KafkaError, match="No space left"):
        stores.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    assert len(stores) == 0
    stores.close()


def test_no_partition_is_made_where_one_of_its_name_is_still_to_leave(take: Take, tmp_path: Path) -> None:
    """The renaming could take its directory away. Two may wait: the first one's end says nothing of the second."""
    stores = take("a", "b")
    deletions = []
    for topic_id in (b"of the first one", b"of the second   "):
        create(stores, "t", 0, topic_id)
        deletions.append(stores.begin_deletion(("t", 0), topic_id))
    assert made_in(stores, f"{tmp_path}/a") == [f"{tmp_path}/b"]
    for deletion, places in zip(deletions, (["b"], ["b", "a"]), strict=True):
        assert deletion is not None
        deletion.run()
        stores.end_deletion(deletion)
        assert made_in(stores, f"{tmp_path}/a") == [f"{tmp_path}/{name}" for name in places]
    stores.close()


def made_in(stores: LogManager, *avoided: str) -> list[str]:
    """Where a new partition is tried; it is not made."""
    making = stores.begin_creation(("t", 0), TOPIC_ID, SMALL, NOW_MS, avoided)
    with pytest.raises(KafkaError, match="the broker stops"):
        stores.end_creation(making)
    return [target.directory for target in making.targets]


def test_one_cluster_and_several_directory_ids(take: Take) -> None:
    first = take("a")
    cluster_id = first.cluster_id
    first.close()
    stores = take("new", "a")
    metas = [store.meta for store in stores]
    assert {meta.cluster_id for meta in metas} == {cluster_id}
    assert len({meta.directory_id for meta in metas}) == 2
    stores.close()


def test_each_directory_has_a_lock_released_if_another_one_is_taken(take: Take, tmp_path: Path) -> None:
    stores = take("a", "b")
    with pytest.raises(DirectoryLocked, match=f"{tmp_path}/b"):
        take("c", "b")
    stores.close()
    stores = take("c", "b")
    stores.close()


def test_a_directory_of_another_cluster_is_refused(take: Take) -> None:
    take("a").close()
    take("b", cluster_id="another").close()
    with pytest.raises(WrongDirectory, match="belongs to cluster"):
        take("a", "b")


def test_checkpoints_name_only_what_is_in_their_directory(take: Take, tmp_path: Path) -> None:
    stores = take("a", "b")
    for partition in range(4):
        create(stores, "t", partition)
    stores.checkpoint({("t", partition): 1 for partition in range(4)})
    written = [(tmp_path / name / "replication-offset-checkpoint").read_text("ascii") for name in "ab"]
    assert written == ["0\n2\nt 0 1\nt 2 1\n", "0\n2\nt 1 1\nt 3 1\n"]
    assert stores.high_watermarks() == {("t", partition): 1 for partition in range(4)}
    stores.close()


def test_a_directory_that_cannot_be_used_takes_its_partitions_alone(
    take: Take, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stores = take("a", "b")
    for partition in range(4):
        create(stores, "t", partition)
    stores.close()
    with caplog.at_level(logging.ERROR):
        stores = take("a", "b", files=Broken(f"{tmp_path}/b"))
    assert f"the log directory {tmp_path}/b cannot be used" in caplog.text
    assert list(stores.refused) == [f"{tmp_path}/b"]
    assert sorted(stores.logs) == [("t", 0), ("t", 2)]
    with pytest.raises(KafkaError, match="may be in") as caught:
        stores.check_not_refused("t", 1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    create(stores, "u", 0)
    stores.close()
    whole = take("a", "b")
    assert len(whole.logs) == 5
    whole.check_not_refused("v", 0)
    whole.close()


def test_a_directory_that_has_lost_its_identity(take: Take, tmp_path: Path) -> None:
    stores = take("a", "b")
    for partition in range(2):
        create(stores, "t", partition)
    stores.close()
    (tmp_path / "b" / "meta.properties").unlink()
    stores = take("a", "b")
    assert "no meta.properties, which says whose it is" in str(stores.refused[f"{tmp_path}/b"])
    stores.close()
    with pytest.raises(StorageError, match=r"no meta\.properties"):
        take("b")


def test_without_any_directory_there_is_no_store(take: Take, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        take("a", "b", files=Broken(str(tmp_path)))


@pytest.mark.parametrize("is_older", [False, True])
def test_one_partition_in_two_directories(take: Take, tmp_path: Path, is_older: bool) -> None:
    """It was deleted, and made anew, while one of them was not there; or a log of another topic was copied into one.

    Of what the metadata do not call deleted nobody knows whether they are older than it.
    """
    for name, topic_id in (("a", bytes(16)), ("b", TOPIC_ID)):
        stores = take(name, cluster_id="c")
        create(stores, "t", 0, topic_id)
        stores.close()

    def opened() -> LogManager:
        paths = [f"{tmp_path}/{name}" for name in "ab"]
        return LogManager.take(paths, files=Files(), node_id=0, config=SMALL, random=Random(1)).claim()

    stores = opened()
    with pytest.raises(StorageError, match="one partition is in two log directories"):
        stores.resolve_duplicates(lambda _: None)
    stores.close()
    written = (tmp_path / "a" / "t-0" / f"{0:020d}.log").read_bytes()
    stores = opened()
    stores.removed |= set() if is_older else {bytes(16)}
    stores.resolve_duplicates({"t": TOPIC_ID}.get)
    for store in stores:
        open_all(store, NOW_MS)
    assert stores.logs["t", 0].directory == f"{tmp_path}/b/t-0"
    assert not (tmp_path / "a" / "t-0").exists()
    stores.close()
    assert [path.read_bytes() for path in tmp_path.glob("a/*-stray/*.log")] == [written] * is_older
    assert len(list(tmp_path.glob("a/*-delete"))) == (not is_older)


@pytest.mark.parametrize("used, left", [("a", "a"), ("b", "b"), ("", "a"), ("ab", "")])
def test_a_partition_begun_in_one_directory_and_made_in_another(
    take: Take, tmp_path: Path, used: str, left: str
) -> None:
    """Of a topic that is known: those that nothing was written to go, as long as one is left."""
    for name in "ab":
        stores = take(name, cluster_id="c")
        log = stores.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
        if name in used:
            append(log, batch())
            stores.close()
        else:
            stores.abandon()
    stores = LogManager.take(
        [f"{tmp_path}/{name}" for name in "ab"], files=Files(), node_id=0, config=SMALL, random=Random(1)
    ).claim()
    if left:
        stores.resolve_duplicates({"t": TOPIC_ID}.get)
        assert [path.parent.name for path in tmp_path.glob("*/t-0")] == [left]
    else:
        with pytest.raises(StorageError, match="one partition is in two log directories"):
            stores.resolve_duplicates({"t": TOPIC_ID}.get)
        assert len(list(tmp_path.glob("*/t-0"))) == 2
    stores.close()


def test_whose_partitions_are_being_made_is_known(take: Take) -> None:
    """Until the last of them is taken up, or could not be made."""
    stores = take("a", "b")
    first, second = (stores.begin_creation(("t", index), TOPIC_ID, SMALL, NOW_MS) for index in range(2))
    assert stores.being_created == {TOPIC_ID: 2}
    first.run()
    stores.end_creation(first)
    assert stores.being_created == {TOPIC_ID: 1}
    with pytest.raises(KafkaError, match="was not created"):
        stores.end_creation(second)
    assert not stores.being_created
    with pytest.raises(KafkaError, match="there is a log"):
        stores.begin_creation(("t", 0), TOPIC_ID, SMALL, NOW_MS)
    assert not stores.being_created
    stores.close()
