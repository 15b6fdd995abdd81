"""Questions to coordinators on other brokers: requests made of them, and the results in the answers."""

from __future__ import annotations

from collections import deque

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.partitions import results
from headgate.gateway.coordinator.transactions.verification_requests import TransactionQuestion, VerificationRequests
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnResult

Result = AddPartitionsToTxnResult | KafkaError
PARTITIONS = {"t": [0, 2], "u": [1]}


def question(transactional_id: str, answers: list[Result], *, adds: bool = False) -> TransactionQuestion:
    return TransactionQuestion(transactional_id, ProducerIdAndEpoch(7, 3), PARTITIONS, adds, answers.append)


def answer_to(response: AddPartitionsToTxnResponse | KafkaError) -> Result:
    """The result of one question."""
    answers: list[Result] = []
    VerificationRequests().end([question("id", answers)], response)
    (result,) = answers
    return result


def response(code: ErrorCode, transactional_id: str = "id") -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_transaction=[results(transactional_id, PARTITIONS, code)])


def test_one_request_has_the_questions_of_many_transactions() -> None:
    queue = deque([question("a", []), question("b", [], adds=True)])
    request = VerificationRequests().take(queue)
    assert request is not None
    first, second = request[0].transactions  # type: ignore[attr-defined]
    assert (first.transactional_id, first.producer_id, first.producer_epoch, first.verify_only) == ("a", 7, 3, True)
    assert [(topic.name, topic.partitions) for topic in first.topics] == [("t", [0, 2]), ("u", [1])]
    assert (second.transactional_id, second.verify_only) == ("b", False)
    assert VerificationRequests().take(queue) is None


def test_a_second_question_of_an_id_waits_for_the_next_request() -> None:
    queue = deque(question(name, []) for name in "aba")
    taken = [VerificationRequests().take(queue) for _ in range(3)]
    assert [each and [question.transactional_id for question in each[1]] for each in taken] == [["a", "b"], ["a"], None]


def test_each_question_gets_its_own_result() -> None:
    first: list[Result] = []
    second: list[Result] = []
    rows = [
        results("b", PARTITIONS, ErrorCode.NONE),
        results("a", PARTITIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ]
    answer = AddPartitionsToTxnResponse(results_by_transaction=rows)
    VerificationRequests().end([question("a", first), question("b", second)], answer)
    assert (first, second) == ([rows[1]], [rows[0]])


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_coordinator_that_lacks_a_new_topic_is_asked_again(code: ErrorCode) -> None:
    answer = answer_to(response(code))
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    "answer, code",
    [
        (response(ErrorCode.NONE, "another"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (
            AddPartitionsToTxnResponse(results_by_transaction=[results("id", {"t": [0]}, ErrorCode.NONE)]),
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (AddPartitionsToTxnResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.INVALID_TXN_STATE),
        (KafkaError(ErrorCode.NETWORK_EXCEPTION), ErrorCode.NETWORK_EXCEPTION),
    ],
    ids=["another id", "a partition is missing", "a failure", "denied", "no answer"],
)
def test_without_results_a_question_gets_an_error(
    answer: AddPartitionsToTxnResponse | KafkaError, code: ErrorCode
) -> None:
    result = answer_to(answer)
    assert isinstance(result, KafkaError)
    assert result.code is code
