"""The resources of messages: what they order from the reading process, and what they refuse before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import child, schema_options
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources import messages


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was ordered; each order is answered by one event, or some bytes."""
    found: list[Any] = []

    def read_events(order: Any) -> Iterator[dict[str, Any]]:
        found.append(order)
        return iter([{"event": "waiting"}, {"offset": 5}])

    def read_bytes(order: Any, silent_s: float) -> Iterator[bytes]:
        found.append(order)
        return iter([b"abc"])

    monkeypatch.setattr(child, "read_events", read_events)
    monkeypatch.setattr(child, "read_bytes", read_bytes)
    return found


def parameters(**given: str) -> Parameters:
    return Parameters([("topic", "a/b"), *given.items()])


CLUSTER = Cluster("127.0.0.1:9092")
ONE = {"partition": "3", "offset": "5"}


def test_a_search_is_ordered_as_it_was_asked_for(orders: list[Any]) -> None:
    assert list(messages.messages(CLUSTER, parameters(text="x")))[-1] == {"offset": 5}
    assert orders == [
        {
            "work": "search",
            "bootstrap": "127.0.0.1:9092",
            "properties": {},
            "parameters": [("topic", "a/b"), ("text", "x")],
            "schemas": None,
            "descriptor_set": None,
        }
    ]


def test_one_message_is_the_start_of_a_search(orders: list[Any]) -> None:
    assert messages.message(CLUSTER, parameters(**ONE)) == {"offset": 5}
    assert ("start", "offset") in orders[0]["parameters"]


def test_files_are_named_after_their_content(orders: list[Any]) -> None:
    part = messages.message_part(CLUSTER, parameters(**ONE, part="key"))
    assert (part.file_name, part.media_type) == ("a/b-3-5-key", "application/octet-stream")
    assert list(part.parts) == [b"abc"]
    whole = messages.messages_export(CLUSTER, parameters(format="csv", limit="100000"))
    assert (whole.file_name, whole.media_type) == ("a/b.csv", "text/csv; charset=utf-8")


@pytest.mark.parametrize(
    "resource, given, sentence",
    [
        (messages.messages, {"limit": "501"}, "from 1 to 500"),
        (messages.message, {"partition": "1"}, "offset is missing"),
        (messages.message, {"offset": "1"}, "has one partition"),
        (messages.message, {"offset": "1", "partition": "1-2"}, "has one partition"),
        (messages.message_part, {**ONE, "part": "all"}, "not one of"),
        (messages.messages_export, {"format": "xml"}, "not one of"),
        (messages.messages_export, {"limit": "100001"}, "from 1 to 100000"),
    ],
)
def test_what_is_wrong_is_refused_before_a_process_starts(
    orders: list[Any], resource: Any, given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadParameter, match=sentence):
        resource(CLUSTER, parameters(**given))
    assert orders == []


def test_a_process_without_an_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "read_events", lambda order: iter([{"event": "waiting"}]))
    with pytest.raises(ClientError, match="no answer"):
        messages.message(CLUSTER, parameters(**ONE))


def test_the_page_learns_what_it_can_offer(tmp_path: Path) -> None:
    schema_options.use(str(tmp_path), None)
    found = messages.message_formats(CLUSTER, Parameters())
    schema_options.use(None, None)
    assert (found["has_schemas"], found["message_types"]) == (True, ())
    assert "auto" in found["formats"]
