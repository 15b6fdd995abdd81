"""Reasons for missing parts: one sentence for many keys with the same reason."""

from headgate.protocol.client.failure import Failure
from headgate.tools.console.resources.missing_parts import MissingParts

DOWN, DENIED = Failure(0, "is down"), Failure(31, "is not allowed")


def test_keys_with_one_reason_share_a_sentence() -> None:
    missing = MissingParts()
    missing.note("sizes", {2: DOWN, 1: DOWN, 3: DENIED}, "broker")
    assert missing == {"sizes": "broker 1, 2: is down; broker 3: is not allowed"}


def test_nothing_missing_has_no_part() -> None:
    missing = MissingParts()
    missing.note("sizes", {})
    missing.note_sentences("lag", [])
    assert missing == {}


def test_a_sentence_is_there_once() -> None:
    missing = MissingParts()
    missing.note_sentences("lag", ["a", "a", "b"])
    missing.note_sentences("lag", ["b", "c"])
    assert missing == {"lag": "a; b; c"}
