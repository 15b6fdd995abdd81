"""The producers of the rows of transactions."""

from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.rows.coordinators.transactions import (
    CommittedFetchRow,
    TransactionalBatchShape,
    TransactionRow,
    partitions_of,
)
from headgate.tools.bench.rows.table import ALL_ROWS, ROWS

TOPIC = Topic("t", bytes(range(16)), 4)


def test_neighbours_share_one_of_their_two_partitions() -> None:
    assert [partitions_of(number, TOPIC).partitions for number in range(4)] == [[0, 1], [1, 2], [2, 3], [0, 3]]
    assert partitions_of(3, Topic("t", TOPIC.topic_id, 1)).partitions == [0]


def test_each_row_has_its_protocol() -> None:
    protocols = {}
    for name in ("txn-64", "txn-64-new"):
        row = ROWS[name]
        assert isinstance(row, TransactionRow)
        protocols[name] = row.protocol.produce, row.protocol.adds
    assert protocols == {"txn-64": (11, True), "txn-64-new": (13, False)}


def test_producers_have_no_pause_but_in_paced_rows() -> None:
    for name, interval_us in (("txn-64", 0), ("txn-64-paced", 100_000)):
        for row in (ROWS[name], ROWS[name.replace("64", "64-new")]):
            assert isinstance(row, TransactionRow)
            assert (row.interval_us, row.name in ALL_ROWS) == (interval_us, not interval_us)


def test_marks_are_for_commits_in_paced_rows_alone() -> None:
    marked = {
        name: [figure.name for figure in ROWS[name].figures if figure.mark is not None][1:]
        for name in ("txn-64", "txn-64-new-paced")
    }
    assert marked == {
        "txn-64": ["transaction p50 us", "transaction p99 us"],
        "txn-64-new-paced": ["commit p50 us", "commit p99 us"],
    }


def test_a_reader_of_committed_records_asks_for_them() -> None:
    row = ROWS["fetch-committed"]
    assert isinstance(row, CommittedFetchRow)
    assert row.options().is_committed
    assert row.options().max_bytes == 64 * 1024


def test_aborted_batches_have_another_content_of_the_same_size() -> None:
    shape = TransactionalBatchShape(3, 100)
    committed, aborted = shape.build(), shape.build(is_commit=False)
    assert len(committed) == len(aborted)
    assert committed[61:] != aborted[61:]
