"""`headgate txn` as it is typed: rows, tables, sentences, exit codes, and that nothing changes without --execute."""

import pytest

from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from headgate.tools.tests.command_output import CommandOutput, Run
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelTransaction
from headgate.tools.txn import command

NOW_MS = 1_700_000_000_000
OLD_MS = NOW_MS - 3_600_000
REASON = "no transactional id has this producer id"


@pytest.fixture
def run(model: ModelCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`payments` is open in a-0, `idle` is empty; the producer 99 hangs in a-0 from offset 12 on."""
    monkeypatch.setattr("headgate.tools.txn.actions.now_ms", lambda: NOW_MS)
    model.topics = model.topics | {"a": [Log(), Log(1)], "b": [Log()]}
    model.topics["a"][0].producers = [
        ProducerState(7, 1, 3, OLD_MS, 4, 10),
        ProducerState(99, 2, 0, OLD_MS, -1, 12),
    ]
    model.transactions = {
        "payments": ModelTransaction(partitions={"a": [0, 1], "b": [0]}, start_time_ms=NOW_MS - 1500, coordinator=1),
        "idle": ModelTransaction("Empty", 8),
    }

    def run_command(*arguments: str) -> CommandOutput:
        code = command.main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


def test_list(run: Run) -> None:
    shown = run("list")
    assert (shown.code, shown.errors) == (0, [])
    assert shown.rows == [
        {"transactional_id": "idle", "state": "Empty", "producer_id": 8, "coordinator": 0},
        {"transactional_id": "payments", "state": "Ongoing", "producer_id": 7, "coordinator": 1},
    ]
    assert run("list", "--table").out.splitlines() == [
        "TRANSACTIONAL ID  STATE    PRODUCER ID  COORDINATOR",
        "idle              Empty              8            0",
        "payments          Ongoing            7            1",
    ]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--state", "ONGOING,preparecommit"], ["payments"]),
        (["--producer-id", "8", "--producer-id", "9"], ["idle"]),
        (["--state", "dead"], []),
    ],
)
def test_list_filters(run: Run, arguments: list[str], expected: list[str]) -> None:
    shown = run("list", *arguments)
    assert [row["transactional_id"] for row in shown.rows] == expected
    assert (shown.code, shown.errors) == (0, [] if expected else ["no transactional id matches"])


def test_list_sends_age_and_pattern(run: Run, model: ModelCluster) -> None:
    """Only of transactions that are open, if the states are not named: a broker matches those that are over, too."""
    run("list", "--older-than", "2m", "--pattern", "pay.*")
    run("list", "--older-than", "2m", "--state", "dead")
    asked = ListTransactionsRequest(["Ongoing", "PrepareCommit", "PrepareAbort"], [], 120_000, "pay.*")
    first, *_, last = model.of(ListTransactionsRequest)
    assert (first, last) == (asked, ListTransactionsRequest(["Dead"], [], 120_000, None))


def test_an_empty_cluster_is_said_to_be_empty(run: Run, model: ModelCluster) -> None:
    model.transactions = {}
    for name in ("list", "describe"):
        shown = run(name)
        assert (shown.code, shown.out, shown.errors) == (0, "", ["there are no transactional ids yet"])


def test_describe(run: Run) -> None:
    shown = run("describe")
    assert (shown.code, shown.errors) == (0, [])
    idle, payments = shown.rows
    assert payments == {
        "transactional_id": "payments",
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 1,
        "timeout_ms": 60_000,
        "start_time_ms": NOW_MS - 1500,
        "age_seconds": 1.5,
        "coordinator": "127.0.0.1:9093",
        "partitions": {"a": [0, 1], "b": [0]},
    }
    assert (idle["start_time_ms"], idle["age_seconds"], idle["partitions"]) == (None, None, {})
    assert [line.split("  COORDINATOR")[0] for line in run("describe", "--table").out.splitlines()[:1]] == [
        "TRANSACTIONAL ID  STATE    PRODUCER ID  PRODUCER EPOCH  TIMEOUT SECONDS  AGE SECONDS"
    ]
    assert [line.split() for line in run("describe", "--table").out.splitlines()[1:]] == [
        ["idle", "Empty", "8", "1", "60.0", "-", "127.0.0.1:9092", "-"],
        ["payments", "Ongoing", "7", "1", "60.0", "1.5", "127.0.0.1:9093", "a:0-1", "b:0"],
    ]


@pytest.mark.parametrize(
    "state, is_open",
    [("Ongoing", True), ("PrepareCommit", True), ("PrepareAbort", True), ("CompleteCommit", False), ("Empty", False)],
)
def test_only_an_open_transaction_has_an_age(run: Run, model: ModelCluster, state: str, is_open: bool) -> None:
    """A broker goes on saying when the transaction began, after its end too."""
    model.transactions = {"x": ModelTransaction(state, start_time_ms=NOW_MS - 2500)}
    (row,) = run("describe", "x").rows
    assert (row["start_time_ms"], row["age_seconds"]) == ((NOW_MS - 2500, 2.5) if is_open else (None, None))


def test_a_missing_id_fails_the_command(run: Run) -> None:
    shown = run("describe", "none", "idle")
    assert shown.code == 1
    assert shown.errors == ["transactional id none: there is no such transactional id; `headgate txn list` shows all"]
    assert [row["transactional_id"] for row in shown.rows] == ["idle"]


def test_hanging_transactions_exit_with_3(run: Run, model: ModelCluster) -> None:
    shown = run("hanging")
    assert shown.code == 3
    assert shown.rows == [
        {
            "topic": "a",
            "partition": 0,
            "start_offset": 12,
            "producer_id": 99,
            "producer_epoch": 2,
            "coordinator_epoch": None,
            "last_timestamp_ms": OLD_MS,
            "age_seconds": 3600.0,
            "transactional_id": None,
            "reason": REASON,
        }
    ]
    abort = "`headgate txn abort --topic a:0 --start-offset 12` shows the abort of"
    assert shown.errors == [f"{abort} it, and changes nothing"]
    model.topics["a"][0].producers.append(ProducerState(98, 2, 0, OLD_MS, -1, 13))
    assert run("hanging").errors == [f"{abort} the first, and changes nothing"]


@pytest.mark.parametrize(
    "arguments", [["--topic", "a:1", "--topic", "b"], ["--max-transaction-timeout", "2h"]], ids=["elsewhere", "older"]
)
def test_nothing_hangs(run: Run, arguments: list[str]) -> None:
    shown = run("hanging", *arguments)
    assert (shown.code, shown.out, shown.errors) == (0, "", [])
    age = 7200 if "2h" in arguments else 900
    shown = run("hanging", *arguments, "--table")
    assert (shown.code, shown.out) == (0, "")
    assert shown.errors == [f"no transaction hangs; one with a batch of the last {age} s is passed over"]


def test_a_missing_topic_fails_the_search(run: Run) -> None:
    shown = run("hanging", "--topic", "gone", "--topic", "b")
    assert (shown.code, shown.errors) == (1, ["gone: there is no such topic; `headgate topics list` shows all"])


def test_hanging_prints_a_table(run: Run) -> None:
    head, row = run("hanging", "--table").out.splitlines()
    assert head.split("  ")[0] == "TOPIC"
    assert row.split(maxsplit=8) == ["a", "0", "12", "99", "2", "-", "3600.0", "-", REASON]


FORCE = "--force aborts it in this partition alone, whatever becomes of its other partitions"
LIVE = "payments is Ongoing, and its coordinator is going to end it"
ABORT = ("abort", "--topic", "a:0", "--start-offset")


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_an_abort_is_a_dry_run_without_execute(run: Run, model: ModelCluster, arguments: list[str]) -> None:
    shown = run(*ABORT, "12", *arguments)
    assert (shown.code, shown.errors) == (0, ["this was a dry run, nothing is changed; --execute does it"])
    assert [(row["producer_id"], row["start_offset"], row["aborted"]) for row in shown.rows] == [(99, 12, False)]
    assert not model.of(WriteTxnMarkersRequest)


def test_abort_ends_a_hanging_transaction(run: Run) -> None:
    shown = run(*ABORT, "12", "--execute")
    assert (shown.code, shown.errors) == (0, [])
    assert [(row["producer_id"], row["aborted"]) for row in shown.rows] == [(99, True)]
    assert run("hanging").code == 0


def test_a_transaction_of_a_coordinator_is_not_aborted(run: Run, model: ModelCluster) -> None:
    shown = run(*ABORT, "10", "--execute")
    assert shown.code == 1
    assert shown.errors == [
        f"a-0: the transaction does not hang: {LIVE}; {FORCE}",
        "nothing is aborted",
    ]
    assert not model.of(WriteTxnMarkersRequest)
    assert run(*ABORT, "10", "--force").rows[0]["aborted"] is False
    assert run(*ABORT, "10", "--force", "--execute").rows[0]["aborted"] is True


def test_without_a_coordinator_an_abort_needs_force(run: Run, model: ModelCluster) -> None:
    model.dead = {2}
    shown = run(*ABORT, "12", "--execute")
    assert shown.code == 1
    assert shown.errors[1:] == [
        f"a-0: the transaction may be live; {FORCE}",
        "nothing is aborted",
    ]
    assert run(*ABORT, "12", "--execute", "--force").code == 0


def test_an_offset_without_a_transaction_names_the_others(run: Run) -> None:
    shown = run(*ABORT, "11", "--execute")
    assert (shown.code, shown.out) == (1, "")
    assert shown.errors == [
        "a-0: no open transaction starts at offset 11; open ones start at 10, 12",
        "nothing is aborted",
    ]
    shown = run("abort", "--topic", "b:0", "--start-offset", "11")
    assert shown.errors[0] == "b-0: no open transaction starts at offset 11; no transaction is open here"


@pytest.mark.parametrize("which", [["--start-offset", "0"], ["--producer-id", "99", "--producer-epoch", "2"]])
def test_an_unknown_partition_is_not_asked(run: Run, which: list[str]) -> None:
    shown = run("abort", "--topic", "a:7", *which)
    assert (shown.code, shown.errors) == (1, ["a-7: there is no such partition: the topic has 2", "nothing is aborted"])


def test_a_broker_that_describes_no_producers_needs_their_epochs(run: Run, model: ModelCluster) -> None:
    model.unserved = {DescribeProducersRequest, ListTransactionsRequest}
    shown = run(*ABORT, "12")
    assert shown.code == 1
    assert "DescribeProducers" in shown.errors[0]
    arguments = ["--topic", "a:0", "--producer-id", "99", "--producer-epoch", "2", "--coordinator-epoch", "3"]
    shown = run("abort", *arguments, "--force", "--execute")
    assert (shown.code, shown.rows[0]["aborted"], shown.rows[0]["start_offset"]) == (0, True, None)
    (request,) = model.of(WriteTxnMarkersRequest)
    assert (request.markers[0].producer_id, request.markers[0].coordinator_epoch) == (99, 3)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["list", "--state", "loud"], "'loud' is no state of a transaction; write one of Empty, Ongoing"),
        (["list", "--older-than", "5"], "'5' is no duration"),
        (["describe", ""], "a transactional id is not empty"),
        (["abort", "--topic", "a", "--start-offset", "1"], "name exactly one partition: --topic topic:0"),
        (["abort", "--topic", "a:0-1", "--start-offset", "1"], "name exactly one partition"),
        (["abort", "--topic", "a:0", "--topic", "b:0", "--start-offset", "1"], "name exactly one partition"),
        (["abort", "--topic", "a:0"], "one of the arguments --start-offset --producer-id is required"),
        (["abort", "--topic", "a:0", "--producer-id", "1"], "--producer-id needs --producer-epoch"),
    ],
)
def test_wrong_usage_exits_with_2(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_an_unreachable_broker_is_one_sentence(run: Run, model: ModelCluster) -> None:
    model.dead = {0}
    shown = run("list")
    assert (shown.code, len(shown.errors)) == (1, 1)
    assert shown.errors[0].startswith("no broker answers at 127.0.0.1:9092")
