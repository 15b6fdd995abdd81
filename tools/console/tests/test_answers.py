"""Answers in parts: events, files, failures, and a visitor who leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.answers import json_bytes, refusal_of
from headgate.tools.console.app import make_app
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resource_table import RESOURCES, AnswerKind, Download
from headgate.tools.console.tests.asgi import Peer
from headgate.tools.console.visitors import NotLoggedIn, TooManyStreams


class FakeResource:
    """A resource of this test."""

    def __init__(self, kind: AnswerKind, function: Any) -> None:
        self.kind = kind
        self.function = function

    def load(self) -> Any:
        return self.function


async def ask(monkeypatch: pytest.MonkeyPatch, kind: AnswerKind, function: Any) -> Any:
    monkeypatch.setitem(RESOURCES, "test", FakeResource(kind, function))
    peer = Peer(make_app(ClusterAccess("127.0.0.1:9092", {}, is_loopback=True))[0])
    await peer.begin()
    return await peer.ask("/api/test?count=2")


def test_each_dict_is_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(cluster: Cluster, parameters: Parameters) -> Iterator[dict[str, int]]:
        for number in range(parameters.number("count")):
            yield {"number": number}

    async def run() -> None:
        answer = await ask(monkeypatch, AnswerKind.EVENTS, count)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.body == b'data: {"number":0}\n\ndata: {"number":1}\n\nevent: end\ndata: {}\n\n'

    trio.run(run)


def test_a_stream_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cluster: Cluster, parameters: Parameters) -> Iterator[dict[str, int]]:
        yield {"number": 0}
        raise ClientError("the broker is gone")

    def refuse(cluster: Cluster, parameters: Parameters) -> Iterator[dict[str, int]]:
        raise BadParameter("no")
        yield {}

    async def run() -> None:
        answer = await ask(monkeypatch, AnswerKind.EVENTS, fail)
        assert answer.body.endswith(b'event: failure\ndata: {"error":"the broker is gone"}\n\n')
        answer = await ask(monkeypatch, AnswerKind.EVENTS, refuse)
        assert (answer.status, answer.json) == (400, {"error": "no"})

    trio.run(run)


def test_a_file_has_a_harmless_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def export(cluster: Cluster, parameters: Parameters) -> Download:
        return Download('a"\r\nb/../c.csv', "text/csv", iter([b"1\n", b"2\n"]))

    async def run() -> None:
        answer = await ask(monkeypatch, AnswerKind.DOWNLOAD, export)
        assert answer.headers["content-disposition"] == 'attachment; filename="a___b_.._c.csv"'
        assert answer.body == b"1\n2\n"

    trio.run(run)


@pytest.mark.parametrize(
    "error, status",
    [
        (NotLoggedIn(), 401),
        (TooManyStreams(), 429),
        (BadParameter("x"), 400),
        (ClientError("x"), 502),
        (KeyError(), 500),
    ],
)
def test_errors_have_a_status(error: Exception, status: int) -> None:
    found, sentence = refusal_of(error)
    assert found == status
    assert sentence


def test_json_is_ascii_and_refuses_what_is_no_json() -> None:
    assert json_bytes({"text": "\ud800é</script>"}) == b'{"text":"\\ud800\\u00e9</script>"}'
    with pytest.raises(ValueError, match="JSON"):
        json_bytes(float("nan"))
