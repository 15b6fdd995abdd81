"""What transactional clients are answered is what Kafka answers, field by field, and so are the logs in the end.

`transactions_scenario` has the questions, and says of whom the answers are. `DIFFERENCES` are on purpose.

Not asked for, as it differs on purpose: AddPartitionsToTxn 4 and 5 without a transaction, to which Kafka never answers;
the new protocol at level 0, where Kafka cannot store its transactions and refuses the id from then on; an id that
DescribeTransactions has twice (told once here); the time of a duplicate, and where the log starts with an error, in the
response of Produce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.transactions.tests.transactions_scenario import (
    KAFKAS,
    SETTINGS,
    WITHOUT_FEATURE,
    play,
)
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker, over_the_wire, parked
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.fetch import FetchResponse
from headgate.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.schema import Message
from headgate.storage.segment.file_slice import FileSlice

pytestmark = pytest.mark.slow
_LINES = (Path(__file__).parent / "transactions_of_kafka.txt").read_text().splitlines()

# Of an exhausted epoch: the record has the id before and the next one (KIP-890), which Kafka leaves out; the same
# question twice is answered twice; Kafka gives out the epoch that is kept for a fence, after which it knows no answer
# but UNKNOWN_SERVER_ERROR
_EXHAUSTED = ("__transaction_state exhausted-.* 0[4567]", "InitProducerId v4: exhausted-.*: the last one again")
# A producer that was replaced gets no epoch of its successor, where the record tells an end from a fence
_REPLACED = ("EndTxn v5: ended-committed: (commit|abort) in the epoch before",)
# Kafka recalls the last batch alone, and refuses copies of the others
_RESTARTED = ("Produce v9: restart-(first-.*: 07 0|open-.*: 09 2)",)
_EXHAUSTED_NEW = ("EndTxn v5: exhausted-new-fenced: fenced, (True|False)",)
# By Kafka: questions, as regular expressions
DIFFERENCES: dict[str, tuple[str, ...]] = {
    "4.1 at level 2": (
        "EndTxn v5: ended-aborted: (commit|abort) in the epoch before",
        *_REPLACED,
        *_RESTARTED,
        *_EXHAUSTED,
        *_EXHAUSTED_NEW,
    ),
    "4.1 at level 1": (*_REPLACED, *_RESTARTED, *_EXHAUSTED, *_EXHAUSTED_NEW),
    "4.1 at level 0": (*_REPLACED, *_RESTARTED, *_EXHAUSTED),
    "3.9": (
        *_RESTARTED,
        *_EXHAUSTED,
        # InitProducerId keeps the start of the last transaction there, and lists go by it
        "DescribeTransactions v0: (add.: new|(commit|abort).: in the end|overdue: anew|exhausted-.*: at last).*",
        "ListTransactions v1: young",
        # Values of version 3, and several of one request in no order
        "__consumer_offsets .*",
    ),
}


class Patient:
    """A node whose time goes on until there is an answer."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node

    def pause(self, for_ms: int) -> None:
        self.node.time.advance(for_ms)

    def restart(self) -> None:
        self.node.restart()

    def renew(self, transactional_id: str, times: int) -> None:
        """By one record, as if all those requests had come."""
        transactions = self.node.services.transactions

        def raise_epoch(shard: TransactionShard, ticket: Ticket) -> Decision:
            state = shard.transactions[transactional_id]
            raised = state.initialized(state.producer_id, state.producer_epoch + times, 60_000, NOW_MS)
            return Decision(shard.record(transactional_id, raised), [(ticket, cast("Any", None))])

        outcome: Any = transactions.submit(transactional_id, raise_epoch)
        if is_task(outcome):
            self.node.services.tasks.start(outcome)
        self.node.time.advance()

    def ask(self, request: Message, version: int) -> Any:
        served = load().get(request.api_key)
        if served is None or served.find(version) is None:
            return None
        outcome = self.node.handle(over_the_wire(request, version), version)
        if is_task(outcome):
            replies = parked(self.node, outcome)
            while not replies:
                self.node.time.advance(1)
            (outcome,) = replies
        if isinstance(outcome, KafkaError):
            outcome = request.error_response(version, outcome.code, outcome.message)
        assert isinstance(outcome, Message)
        if isinstance(outcome, FetchResponse):
            read_slices(outcome)
        return over_the_wire(outcome, version)


def read_slices(response: FetchResponse) -> None:
    """Replace the pieces of segment files by their bytes."""
    for row in (row for topic in response.responses for row in topic.partitions):
        if isinstance(row.records, FileSlice):
            row.records = row.records.read()


class Compared(NamedTuple):
    """Answers by their questions, of a Kafka and of a node."""

    kafka: str
    kafkas: dict[str, str]
    ours: dict[str, str]


@pytest.fixture(scope="module", params=KAFKAS)
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    rows = [line.split("\t") for line in _LINES]
    kafkas = {name: answer for who, name, answer in rows if request.param in who.split(", ")}
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    patient, level = Patient(node), KAFKAS[request.param]
    if level == WITHOUT_FEATURE:
        patient.ask(UpdateFeaturesRequest(60_000, [FeatureUpdateKey("transaction.version", 0, True, 2)]), 2)
    yield Compared(request.param, kafkas, play(patient, level))
    node.close()


def test_the_answers_are_kafkas(compared: Compared) -> None:
    expected = {name: answer for name, answer in compared.kafkas.items() if not is_different(compared.kafka, name)}
    assert {name: compared.ours.get(name) for name in expected} == expected


def test_every_difference_is_one(compared: Compared) -> None:
    """A difference that has gone must not hide the next one."""
    for pattern in DIFFERENCES[compared.kafka]:
        names = [name for name in compared.kafkas if re.fullmatch(pattern, name)]
        assert any(compared.ours.get(name) != compared.kafkas[name] for name in names), pattern


def is_different(kafka: str, name: str) -> bool:
    """Whether the answer to a question is another one on purpose."""
    return any(re.fullmatch(pattern, name) for pattern in DIFFERENCES[kafka])
