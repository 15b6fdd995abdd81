"""Decisions, and the short ways to make one."""

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.heartbeat import HeartbeatResponse


def test_an_answer_without_records() -> None:
    ticket = Ticket()
    assert not ticket.is_gone
    assert Decision.reply(ticket, HeartbeatResponse()) == Decision(replies=[(ticket, HeartbeatResponse())])


def test_a_refusal_without_records() -> None:
    decision = Decision.refuse(Ticket(), ErrorCode.UNKNOWN_MEMBER_ID, "nobody knows it")
    ((_, error),) = decision.replies
    assert isinstance(error, KafkaError)
    assert (error.code, error.message, decision.records) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody knows it", [])


def test_decisions_share_nothing() -> None:
    first, second = Decision(), Decision()
    first.replies.append((Ticket(), HeartbeatResponse()))
    assert second.replies == []
    assert second.is_atomic
    assert second.failed is None
