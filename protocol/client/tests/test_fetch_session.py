"""The client's side of a fetch session: what each request names, and when it begins anew."""

from __future__ import annotations

from headgate.protocol.client.fetch_session import LAST_EPOCH, FetchKey, FetchSession
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse

A, B = FetchKey("a", b"a" * 16, 0), FetchKey("b", b"b" * 16, 3)
ROW = FetchPartition(partition=0, fetch_offset=7)


def ask(session: FetchSession, *keys: FetchKey, forgotten: tuple[FetchKey, ...] = ()) -> FetchRequest:
    return session.request(dict.fromkeys(keys, ROW), forgotten, max_wait_ms=0, min_bytes=0)


def names(request: FetchRequest) -> tuple[int, int, list[str], list[tuple[str, list[int]]]]:
    gone = [(topic.topic, topic.partitions) for topic in request.forgotten_topics_data]
    return request.session_id, request.session_epoch, [topic.topic for topic in request.topics], gone


def test_later_requests_name_only_changes() -> None:
    session = FetchSession()
    assert names(ask(session, A, B)) == (0, 0, ["a", "b"], [])
    assert session.accept(FetchResponse(session_id=5))
    assert names(ask(session, forgotten=(B,))) == (5, 1, [], [("b", [3])])
    assert session.accept(FetchResponse(session_id=5))
    assert names(ask(session, B, forgotten=(FetchKey("c", b"c" * 16, 0),))) == (5, 2, ["b"], [])
    assert list(session.members) == [A, B]


def test_a_topic_made_again_is_another_partition() -> None:
    session, again = FetchSession(), A._replace(topic_id=b"x" * 16)
    ask(session, A)
    session.accept(FetchResponse(session_id=5))
    request = ask(session, again, forgotten=(A,))
    assert [topic.topic_id for topic in request.topics] == [b"x" * 16]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [b"a" * 16]


def test_without_a_session_each_request_names_all() -> None:
    session = FetchSession()
    ask(session, A)
    assert not session.accept(FetchResponse(session_id=0))
    assert not session.members
    assert names(ask(session, A)) == (0, 0, ["a"], [])


def test_a_lost_answer_closes_the_session_by_a_new_one() -> None:
    session = FetchSession()
    ask(session, A)
    session.accept(FetchResponse(session_id=5))
    session.restart()
    assert names(ask(session, A)) == (5, 0, ["a"], [])


def test_an_unknown_session_is_forgotten() -> None:
    session = FetchSession()
    ask(session, A)
    session.accept(FetchResponse(session_id=5))
    assert not session.accept(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert names(ask(session, A)) == (0, 0, ["a"], [])


def test_another_refusal_closes_the_session() -> None:
    session = FetchSession()
    ask(session, A)
    session.accept(FetchResponse(session_id=5))
    assert not session.accept(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=5))
    assert names(ask(session, A)) == (5, 0, ["a"], [])


def test_the_epoch_after_the_last_one_is_1() -> None:
    session = FetchSession()
    ask(session, A)
    session.accept(FetchResponse(session_id=5))
    session.epoch = LAST_EPOCH
    session.accept(FetchResponse(session_id=5))
    assert names(ask(session))[1] == 1
