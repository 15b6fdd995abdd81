"""Whatever the bytes are, a reader reads them or refuses them, and takes little memory for it; see `subjects.py`."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.schema import Message
from headgate.protocol.tests.examples import share
from headgate.protocol.tests.hostile.subjects import MESSAGES, OTHERS, SUBJECTS, Subject
from headgate.protocol.tests.shapes import Edit, dense, edited, edits
from headgate.protocol.tests.values import LAYOUTS
from headgate.protocol.tests.values import MESSAGES as CLASSES

# More in a soak run, which asks for more of everything
few = settings(max_examples=max(share(3), settings().max_examples // 100))
some = settings(max_examples=max(share(50), settings().max_examples // 10))


@functools.cache
def good_bytes(subject: Subject) -> list[bytes]:
    """Made once, not for each example."""
    return subject.good()


def versions(cls: type[Message]) -> list[tuple[int, Subject]]:
    first, last = cls.versions
    return [(version, MESSAGES[f"{cls.__name__}-v{version}"]) for version in range(first, last + 1)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(noise=st.binary(max_size=100), changes=edits)
@few
def test_any_bytes_are_a_message_or_refused(cls: type[Message], noise: bytes, changes: list[Edit]) -> None:
    for _, subject in versions(cls):
        subject.endure(noise)
        for good in good_bytes(subject):
            subject.endure(edited(good, changes))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_densest_messages_take_little_memory(cls: type[Message]) -> None:
    for version, subject in versions(cls):
        for data in dense(cls, version) if (cls, version) in LAYOUTS else ():
            assert subject.attempt(data)
            subject.endure(data)


@pytest.mark.parametrize("subject", OTHERS, ids=lambda subject: subject.name)
@given(noise=st.binary(max_size=100), changes=edits, data=st.data())
@some
def test_any_other_bytes_are_read_or_refused(
    subject: Subject, noise: bytes, changes: list[Edit], data: st.DataObject
) -> None:
    subject.endure(noise)
    subject.endure(edited(data.draw(st.sampled_from(good_bytes(subject))), changes))


@pytest.mark.slow
def test_valid_bytes_are_read() -> None:
    """Else the tests above would try nothing but noise."""
    for name, subject in SUBJECTS.items():
        for good in good_bytes(subject):
            assert subject.attempt(good), name
