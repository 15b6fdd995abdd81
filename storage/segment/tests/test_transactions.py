"""Transactions in a log: what is stable, what a read_committed consumer sees, and what is left of it after any stop."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import control
from headgate.protocol.records.batch import BatchHeader, Record, build, iterate, read_header
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import first_in_unit, share
from headgate.storage.config import LOG_APPEND_TIME, LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk.pool import Pool
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.log.validation import BROKER, HEADER, RECORDS, Depth
from headgate.storage.segment import transaction_index
from headgate.storage.segment.transaction_index import NO_OFFSET
from headgate.storage.segment.transactions import Transactions, opened
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    append_own,
    assert_derived_state,
    assert_transactions,
    batch,
    delete_old_segments,
    marker,
    new_log,
    numbered,
    open_store,
    transactional,
)
from headgate.storage.tests.compacted import assert_indexes, compact
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut
from headgate.storage.tests.truncating import truncate_to

KEY = "t", 0
PARTITION = "/data/t-0"


# What is open


def header(producer_id: int, *, ends: bool = False) -> BatchHeader:
    return read_header(marker(True, producer_id=producer_id) if ends else transactional(0, producer_id=producer_id))


def followed(*steps: tuple[int, str]) -> Transactions:
    """(producer id, "data" or "commit" or "abort") one batch after another, from offset 10 on."""
    transactions = Transactions()
    for offset, (producer_id, what) in enumerate(steps, 10):
        ended = None if what == "data" else Marker(what == "commit", 0)
        transactions.follow(header(producer_id, ends=ended is not None), offset, ended)
    return transactions


def test_the_oldest_open_one_is_the_first_that_is_unstable() -> None:
    assert followed().first_unstable == NO_OFFSET
    assert followed((1, "data"), (2, "data"), (1, "data")).first_unstable == 10
    transactions = followed((1, "data"), (2, "data"), (1, "commit"))
    assert transactions.first_unstable == 10, "the marker is not replicated yet"
    transactions.replicated(12)
    assert transactions.first_unstable == 10
    transactions.replicated(13)
    assert transactions.first_unstable == 11
    assert transactions == Transactions({2: 11})


def test_what_an_abort_leaves_to_be_known() -> None:
    transactions = followed((1, "data"), (2, "data"))
    assert transactions.end(3, 12, Marker(False, 0)) is None, "one without records"
    assert transactions.end(2, 13, Marker(False, 0)) == (2, 11, 13, 10)
    assert transactions.end(1, 14, Marker(False, 0)) == (1, 10, 14, 15)


def test_an_emptied_marker_ends_nothing() -> None:
    transactions = followed((1, "data"))
    assert transactions.follow(header(1, ends=True), 11, None) is None
    assert transactions.open == {1: 10}


def test_an_emptied_batch_begins_nothing() -> None:
    """Its transaction was decided before compaction could take its records, and the marker may be gone by now."""
    transactions = Transactions()
    transactions.follow(header(1)._replace(records_count=0), 10, None)
    assert transactions.open == {}
    assert recorded(transactional(0)).by_id[7].transaction_start == 100
    producers = Producers()
    producers.record(read_header(transactional(4))._replace(records_count=0), 100)
    assert (producers.by_id[7].last_sequence, producers.by_id[7].transaction_start) == (4, -1)


def test_taking_back_keeps_the_order() -> None:
    transactions = followed((1, "data"), (2, "data"), (1, "abort"), (1, "data"))
    transactions.restore(1, 10, 12)
    assert (list(transactions.open.items()), transactions.decided) == ([(1, 10), (2, 11)], {})
    transactions.restore(1, -1, 10)
    assert transactions == opened([(2, 11), (3, -1)])


# Producers


def recorded(*batches: memoryview) -> Producers:
    producers = Producers()
    for offset, data in enumerate(batches, 100):
        producers.record(read_header(data), offset, control.read(data) if read_header(data).is_control else None)
    return producers


def test_a_marker_ends_the_transaction_of_its_producer() -> None:
    producers = recorded(transactional(0))
    assert (producers.by_id[7].transaction_start, producers.are_transactional) == (100, True)
    producers = recorded(transactional(0), transactional(1), marker(True, coordinator_epoch=4))
    seven = producers.by_id[7]
    assert (seven.transaction_start, seven.coordinator_epoch, seven.last_sequence) == (-1, 4, 1)
    assert producers.transactions.open == {}


def test_a_marker_of_a_later_epoch_begins_that() -> None:
    """As Kafka's coordinator fences a producer, and since KIP-890 with each transaction."""
    producers = recorded(transactional(0), transactional(1), marker(False, epoch=1))
    assert (producers.by_id[7].epoch, producers.by_id[7].last_sequence) == (1, -1)
    with pytest.raises(KafkaError) as caught:
        producers.check(read_header(transactional(2)), lambda *_: ())
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(read_header(transactional(0, epoch=1)), lambda *_: ()) is None


def test_open_transactions_survive_a_snapshot() -> None:
    producers = recorded(transactional(0, producer_id=8), transactional(0), marker(True), transactional(1))
    again = Producers.from_snapshot(producers.to_snapshot())
    assert list(again.transactions.open.items()) == [(8, 100), (7, 103)]
    assert [producer.transaction_start for producer in again.by_id.values()] == [100, 103]
    assert again.are_transactional


def test_batches_of_a_coordinator_have_no_sequence() -> None:
    producers = recorded(transactional(-1, 3))
    assert producers.check(read_header(transactional(-1)), lambda *_: ()) is None
    again = Producers.from_snapshot(producers.to_snapshot())
    assert again.by_id[7].batches == [(-1, -1, 100, 102, NOW_MS)]
    assert again.check(read_header(transactional(0)), lambda *_: ()) is None


def test_one_producer_that_had_transactions_is_not_forgotten() -> None:
    data = (
        transactional(0, producer_id=8),
        marker(True, producer_id=8),
        transactional(0),
        marker(True),
        numbered(0, producer_id=9),
    )
    producers = recorded(*data)
    assert producers.expire(NOW_MS + 10, 10) == 2
    assert list(producers.by_id) == [7]
    producers.record(read_header(transactional(0, producer_id=8)), 200)
    assert producers.expire(NOW_MS + 10, 10) == 1
    assert list(producers.by_id) == [8]


# Appending


def filled(config: LogConfig = SMALL) -> Log:
    """Offsets: 0 plain, 1-2 of 7, 3 of 8, 4 commits 7, 5 of 7, 6 aborts 8."""
    log = new_log(config=config)
    append(log, batch())
    append_own(log, transactional(0, 2), transactional(0, producer_id=8), marker(True), transactional(2))
    append_own(log, marker(False, producer_id=8))
    return log


def test_the_stable_offset() -> None:
    log = new_log()
    append(log, batch(3))
    assert log.stable_offset == 3
    append_own(log, transactional(0, 2))
    assert (log.stable_offset, log.end_offset) == (3, 5)
    append_own(log, marker(True))
    assert log.stable_offset == 3, "the high watermark was not told"
    log.producers.replicated(6)
    assert log.stable_offset == 6
    append_own(log, transactional(2))
    append(log, batch(3))
    log.advance_start(8)
    assert log.stable_offset == 8, "what is deleted is not below it"


def test_aborted_transactions() -> None:
    log = filled()
    assert log.segments[-1].aborted is not None
    assert transaction_index.parse(log.segments[-1].aborted.content()) == [(8, 3, 6, 5)]
    assert log.aborted(0, 5) == log.aborted(4, 5) == log.aborted(6, 7) == [(8, 3)]
    assert log.aborted(0, 3) == []
    assert_derived_state(log)


@pytest.mark.parametrize("depth", [HEADER, RECORDS])
@pytest.mark.parametrize("data", [transactional(0), marker(True)])
def test_clients_write_no_marker_and_no_unverified_batch(data: memoryview, depth: Depth) -> None:
    with pytest.raises(KafkaError) as caught:
        append(new_log(), data, depth=depth)
    assert caught.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TXN_STATE)


REFUSED: list[tuple[memoryview, ErrorCode]] = [
    (marker(True, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
    (marker(True, epoch=1, coordinator_epoch=4), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (memoryview(build([], is_control=True, producer_id=7, producer_epoch=1)), ErrorCode.INVALID_RECORD),
    (numbered(2, epoch=1), ErrorCode.INVALID_TXN_STATE),
    (transactional(3, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (transactional(1, epoch=1, base_offset=5), ErrorCode.INVALID_RECORD),
    (memoryview(build([Record()], is_transactional=True)), ErrorCode.INVALID_RECORD),
]


@pytest.mark.parametrize("data,code", REFUSED)
def test_what_is_refused_changes_nothing(data: memoryview, code: ErrorCode) -> None:
    log = new_log()
    append_own(log, transactional(0, epoch=1), marker(True, epoch=1, coordinator_epoch=5), transactional(1, epoch=1))
    log.producers.replicated(2)
    before = log.end_offset, log.stable_offset, log.producers.by_id[7].copy()
    with pytest.raises(KafkaError) as caught:
        append_own(log, memoryview(bytearray(data)))
    assert caught.value.code is code
    assert (log.end_offset, log.stable_offset, log.producers.by_id[7]) == before


def test_a_repeated_batch_of_a_transaction_is_a_duplicate() -> None:
    log = filled()
    info = appending.append(log, transactional(0, 2), leader_epoch=0, now_ms=NOW_MS, origin=BROKER)
    assert (info.is_duplicate, info.first_offset) == (True, 1)


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(compression_type="gzip"),
        LogConfig(cleanup_policy=("compact",)),
        LogConfig(message_timestamp_type=LOG_APPEND_TIME),
        LogConfig(max_message_bytes=70),
    ],
)
def test_a_marker_is_appended_whatever_the_topic_asks_of_clients(config: LogConfig) -> None:
    log = new_log(config=config)
    append_own(log, transactional(0), marker(False))
    (_, first), (second, ended) = log.segments.batches(0)
    assert (first, ended, second.is_log_append_time) == (
        None,
        (False, 0),
        bool(config.message_timestamp_type[0] == "L"),
    )
    assert log.aborted(0, 2) == [(7, 0)]
    assert_derived_state(log)


def test_a_failed_write_takes_the_transactions_back(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled()
    before = log.end_offset, log.stable_offset, dict(log.producers.transactions.open), log.aborted(0, 100)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    opened_file = type(log.segments[-1].file)
    for data in (marker(False), transactional(0, producer_id=9), marker(True)):
        with monkeypatch.context() as patch:
            patch.setattr(opened_file, "write_at", fail)
            with pytest.raises(KafkaError):
                append_own(log, data)
        assert (log.end_offset, log.stable_offset, log.producers.transactions.open, log.aborted(0, 100)) == before
    append_own(log, marker(False))
    assert_derived_state(log)


def test_a_log_that_moves_to_another_pool_takes_its_indexes_along() -> None:
    log = filled()
    log.aborted(0, 100)
    pool = Pool(log.pool.files)
    log.close_files()
    log.move_to(pool)
    assert log.aborted(0, 100) == [(8, 3)]
    assert pool.loaded_bytes > 0


# What a consumer sees


def committed(log: Log, max_bytes: int, start: int = 0) -> list[Record]:
    """The records that a read_committed consumer is given, by the rule of Kafka's Java client."""
    offset, seen, end = start, list[Record](), log.stable_offset
    while (piece := log.read(offset, max_bytes, end, at_least_one=True)) is not None:
        waiting = sorted(log.aborted(offset, end, piece), key=lambda one: one[1])
        skipped = set[int]()
        for one, view in batches_of(piece.read()):
            while waiting and waiting[0][1] <= one.last_offset:
                skipped.add(waiting.pop(0)[0])
            if one.is_control:
                ended = control.read(view)
                if ended is not None and not ended.is_commit:
                    skipped.discard(one.producer_id)
            elif not (one.is_transactional and one.producer_id in skipped):
                seen += [record for record in iterate(view) if record.offset >= offset]
            end_of_batch = one.last_offset + 1
        offset = end_of_batch
    return seen


def batches_of(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """As `split`, but what compaction has left too."""
    position = 0
    while position < len(data):
        one = read_header(data, position)
        yield one, data[position : position + one.size]
        position += one.size


class Writer:
    """Writes to a log, and knows what is committed."""

    config = SMALL

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files = CrashingFiles()
        self.store: LogDirectory = open_store(self.files, self.config)
        self.log = self.store.create("t", 0, TOPIC_ID, self.config, NOW_MS)
        self.sequences = [0] * 4
        self.written: list[tuple[int, bool | None, int]] = []
        """Of each record its offset, whether it is committed (None: not decided yet), and the producer."""

    def write(self, producer_id: int) -> None:
        count = self.random.randint(1, 3)
        size = self.random.choice([5, 100, 400])
        if not producer_id:
            append(self.log, batch(count, size=size))
            self._note(count, True, -1)
        else:
            data = transactional(self.sequences[producer_id], count, producer_id=producer_id, size=size)
            append_own(self.log, data)
            self.sequences[producer_id] += count
            self._note(count, None, producer_id)

    def _note(self, count: int, is_committed: bool | None, producer_id: int) -> None:
        end = self.log.end_offset
        self.written += [(offset, is_committed, producer_id) for offset in range(end - count, end)]

    def end(self, producer_id: int, is_commit: bool) -> None:
        append_own(self.log, marker(is_commit, producer_id=producer_id))
        self.log.producers.replicated(self.log.end_offset)
        self._resume()
        self._decide(producer_id, is_commit)

    def _decide(self, producer_id: int, is_commit: bool) -> None:
        self.written = [
            (offset, is_commit if whose == producer_id and state is None else state, whose)
            for offset, state, whose in self.written
        ]

    def check(self) -> None:
        log = self.log
        undecided = [offset for offset, state, _ in self.written if state is None]
        log.producers.replicated(log.end_offset)
        begun = max(log.start_offset, min(undecided, default=log.end_offset))
        left = min((offset for offset in undecided if offset >= log.start_offset), default=log.end_offset)
        stable = log.stable_offset
        assert stable in (begun, left), "where its first record was, or where the first one is that was not deleted"
        wanted = [offset for offset, state, _ in self.written if state and log.start_offset <= offset < stable]
        for max_bytes in (1, 700, 1 << 30):
            self.compare(committed(log, max_bytes, log.start_offset), wanted)
        self.check_derived_state()

    def check_derived_state(self) -> None:
        assert_derived_state(self.log)

    def compare(self, seen: list[Record], wanted: list[int]) -> None:
        """What a consumer sees is what is committed."""
        assert [record.offset for record in seen] == wanted

    def step(self, what: str) -> None:
        if what.startswith("write"):
            self.write(int(what[-1]))
        elif what.startswith(("commit", "abort")):
            self.end(int(what[-1]), what.startswith("commit"))
        else:
            getattr(self, what)()

    def roll(self) -> None:
        if self.log.segments[-1].size:
            rolling.roll(self.log, NOW_MS)

    def delete(self) -> None:
        if len(self.log.segments) > 1:
            self.log.advance_start(self.log.segments[1].base_offset)
            delete_old_segments(self.log, NOW_MS, up_to=self.log.end_offset)

    def flush(self) -> None:
        flushing.flush(self.log)
        self.store.checkpoint({KEY: self.log.end_offset})

    def reopen(self) -> None:
        self._open()
        self._resume()
        self.check()

    def _open(self) -> None:
        self.store = open_store(self.files, self.config)
        assert not self.store.failed
        log = self.store.logs.get(KEY)
        self.log = log if log is not None else self.store.create("t", 0, TOPIC_ID, self.config, NOW_MS)

    def restart(self) -> None:
        self.store.close()
        self._lose()
        self._damage(is_clean=True)
        self.reopen()

    def kill(self) -> None:
        assert isinstance(self.files, CrashingFiles)
        self.files = self.files.crash(self.random, power=False)
        self._lose()
        self._damage(is_clean=False)
        self.reopen()

    def _damage(self, *, is_clean: bool) -> None:
        """Cut an index within an entry, which is always seen, or fill it with zeros, which is seen after a crash."""
        for name in sorted(self.files.list(PARTITION)):
            path = f"{PARTITION}/{name}"
            size = self.files.size(path)
            if name.endswith(".txnindex") and size >= 34 and self.random.random() < 0.2:
                if is_clean:
                    self.files.truncate(path, size - self.random.randint(1, 33))
                else:
                    self.files.write(path, bytes(size))

    def _lose(self) -> None:
        """Someone deletes what can be derived: one file, all of a kind, or everything; or nobody does."""
        kinds = (".txnindex", ".snapshot", ".index", ".timeindex")
        derived = sorted(name for name in self.files.list(PARTITION) if name.endswith(kinds))
        which: list[Callable[[str], bool]] = [
            lambda name: False,
            lambda name: name.endswith(".txnindex"),
            lambda name: name.endswith((".txnindex", ".snapshot")),
            lambda name: True,
            lambda name: name == lost,
        ]
        lost = self.random.choice(derived) if derived else ""
        is_lost = self.random.choice(which)
        for name in filter(is_lost, derived):
            self.files.remove(f"{PARTITION}/{name}")

    def truncate(self) -> None:
        """To a place where no transaction was ended, as a follower does that had none of what is cut off."""
        ends = [one.last_offset + 1 for one, _ in self.log.segments.batches(self.log.start_offset)]
        target = self.random.choice([self.log.start_offset, *ends])
        truncate_to(self.log, target, self.store.write_recovery_points)
        self._remember()
        self._resume()
        self.check()

    def power(self) -> None:
        """The power goes, and again while the log is opened: what is left is a part of what was written."""
        assert isinstance(self.files, CrashingFiles)
        while True:
            self.files = self.files.crash(self.random, power=True)
            self.files.cut_after = self.random.choice([None, self.random.randint(0, 12)])
            try:
                self._open()
                self._remember()
                self.sequences = [0] * 4
                self._resume()
                self.check()
            except PowerCut:
                continue
            self.files.cut_after = None
            return

    def cut(self) -> None:
        """The power goes in the middle of one of the next steps."""
        assert isinstance(self.files, CrashingFiles)
        self.files.cut_after = self.random.randint(0, 25)

    def run(self, what: str) -> None:
        """A step that may be the last one before the power goes."""
        try:
            self.step(what)
        except PowerCut:
            self.power()

    def _remember(self) -> None:
        """What is written is what is left, from offset 0 on, and what became of it is said by the markers that are."""
        self.written = []
        for one, ended in self.log.segments.batches(0):
            if one.is_control:
                assert ended is not None
                self._decide(one.producer_id, ended.is_commit)
            else:
                whose, state = (one.producer_id, None) if one.is_transactional else (-1, True)
                self.written += [(offset, state, whose) for offset in range(one.base_offset, one.last_offset + 1)]

    def _resume(self) -> None:
        """Producers of whom only a marker is left have to begin at 0, as in Kafka; who is not known may go on."""
        for producer_id, producer in self.log.producers.by_id.items():
            self.sequences[producer_id] = producer.last_sequence + 1


WRITES = ["write0", "write1", "write2", "write3"]
STEPS = [*WRITES * 3, *(f"{how}{who}" for how in ("commit", "abort") for who in (1, 2, 3)), "roll", "flush"]


@given(st.lists(st.sampled_from([*STEPS, "restart", "kill"]), max_size=50), st.integers(0, 1 << 32))
@settings(max_examples=share(60), deadline=None)
def test_a_consumer_sees_what_is_committed_and_no_more(steps: list[str], seed: int) -> None:
    writer = Writer(Random(seed))
    for step in steps:
        writer.step(step)
    writer.check()
    writer.kill()


@given(st.lists(st.sampled_from([*STEPS, "truncate", "restart", "kill"]), max_size=40), st.integers(0, 1 << 32))
@settings(max_examples=share(30), deadline=None)
def test_the_same_where_the_end_is_cut_off(steps: list[str], seed: int) -> None:
    writer = Writer(Random(seed))
    for step in steps:
        writer.step(step)
    writer.check()


@pytest.mark.slow
@given(st.lists(st.sampled_from([*STEPS, "flush", "power", "cut", "restart"]), max_size=60), st.integers(0, 1 << 32))
@settings(max_examples=share(60), deadline=None)
def test_what_a_power_cut_leaves_is_as_consistent(steps: list[str], seed: int) -> None:
    writer = Writer(Random(seed))
    for step in steps:
        writer.run(step)
    writer.run("power")


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", list(first_in_unit(range(0, 120, 20), some=2)))
def test_long_histories(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        writer = Writer(Random(seed))
        for step in writer.random.choices([*STEPS, "delete", "restart", "kill"], k=writer.random.randint(1, 120)):
            writer.step(step)
        writer.check()
        writer.kill()


class Keyed(Writer):
    """The same on a compacted log: of each key the last committed record has to be there, and none that was aborted."""

    config = LogConfig(
        cleanup_policy=("compact",),
        segment_bytes=1500,
        index_interval_bytes=100,
        segment_index_bytes=10_000,
        delete_retention_ms=1000,
        min_cleanable_dirty_ratio=0.0,
    )

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.now_ms = NOW_MS
        self.records: dict[int, tuple[bytes, bytes]] = {}
        """Offset -> key and value."""

    def write(self, producer_id: int) -> None:
        random, offset = self.random, self.log.end_offset
        some = [(b"k%d" % random.randrange(6), random.randbytes(random.choice([3, 100]))) for _ in range(3)]
        self.records.update(enumerate(some, offset))
        records = [Record(timestamp=self.now_ms, key=key, value=value) for key, value in some]
        made = build(records)
        if producer_id:
            sequence = self.sequences[producer_id]
            made = build(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
            )
        self.sequences[producer_id] += len(some)
        append_own(self.log, memoryview(made))
        self._note(len(some), None if producer_id else True, producer_id or -1)

    def later(self) -> None:
        """So that what stays for a while is at its end."""
        self.now_ms += self.random.choice([10, 600, 5000])

    def compact(self) -> None:
        self.roll()
        flushing.flush(self.log)
        compact(self.log, self.now_ms)
        self.check()

    def check_derived_state(self) -> None:
        assert_indexes(self.log)
        assert_transactions(self.log, is_compacted=True)

    def compare(self, seen: list[Record], wanted: list[int]) -> None:
        assert {record.offset for record in seen} <= set(wanted)
        assert all(self.records[record.offset] == (record.key, record.value) for record in seen)
        assert _last_of_keys([record.offset for record in seen], self.records) == _last_of_keys(wanted, self.records)


def _last_of_keys(offsets: list[int], records: dict[int, tuple[bytes, bytes]]) -> dict[bytes, int]:
    return {records[offset][0]: offset for offset in offsets}


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@example(191354)  # a read passes over batches without records, into the next segment
@settings(max_examples=share(40), deadline=None)
def test_compaction_leaves_what_is_committed(seed: int) -> None:
    keyed = Keyed(Random(seed))
    steps = keyed.random.choices([*STEPS, "later", "compact", "compact", "restart", "kill"], k=seed % 100)
    for step in [*steps, "compact", "kill"]:
        keyed.step(step)
