"""Whatever the bytes are, a node is read or refused with InvalidNode, within a bound of memory."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tests.recordings import READERS, Reader, read, reader_of, written
from headgate.protocol.tests.examples import share
from headgate.protocol.tests.hostile.subjects import Subject
from headgate.protocol.tests.shapes import Edit, edited, edits

some = settings(max_examples=max(share(25), settings().max_examples // 4))

_PATHS = {reader.name: path for _, path, _ in written() if (reader := reader_of(path))}
_PATHS["failed directory"] = "/log_dir_event_notification/log_dir_event_0000000000"
_FAILED = b'{"version":1,"broker":1,"event":1}'

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_DENSE = [
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[" + b"[]," * 20_000 + b"[]]",
    b"9" * 100_000,
    b'{"partitions":{"0":[' + b"1," * 30_000 + b"1]}}",
    b'{"version":1e999}',
    b'{"version":NaN}',
    b"\xef\xbb\xbf{}",
    b'"\\ud800"',
    b'{"version":1,"config":{"a":"\\udfff"}}',
    b"null",
    b"true",
    b"{}",
]


@functools.cache
def _good(reader: Reader) -> list[bytes]:
    return [data for _, path, data in written() if reader_of(path) is reader][:20] or [_FAILED]


def _check(path: str, data: bytes, value: Any) -> None:
    if value is not None:
        assert read(path, value.encode()) == value


def _subject(reader: Reader) -> Subject:
    path = _PATHS[reader.name]
    reading: Callable[[bytes], Any] = functools.partial(reader.read, path)
    good = functools.partial(_good, reader)
    return Subject(reader.name, reading, good, functools.partial(_check, path), refusals=(InvalidNode,))


SUBJECTS = [_subject(reader) for reader in READERS]


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@given(noise=st.binary(max_size=100), changes=edits, data=st.data())
@some
def test_any_bytes_are_read_or_refused(
    subject: Subject, noise: bytes, changes: list[Edit], data: st.DataObject
) -> None:
    subject.endure(noise)
    subject.endure(edited(data.draw(st.sampled_from(subject.good())), changes))


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@given(data=st.data())
@some
def test_any_json_is_read_or_refused(subject: Subject, data: st.DataObject) -> None:
    """One member of good data is anything."""
    good = json.loads(data.draw(st.sampled_from(subject.good()))) if subject.name != "owner" else {}
    value = data.draw(_json)
    if isinstance(good, dict) and good:
        value = good | {data.draw(st.sampled_from(sorted(good))): value}
    subject.attempt(json.dumps(value).encode())


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_dense_bytes_take_little_memory(subject: Subject) -> None:
    for data in _DENSE:
        subject.endure(data)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_good_bytes_are_read(subject: Subject) -> None:
    """Else the tests above would try nothing but noise."""
    for good in subject.good():
        assert subject.attempt(good)
