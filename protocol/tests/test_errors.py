"""Error codes, against kio's, the two exceptions, and exceptions that are kept."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Generator

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from headgate.protocol.errors import MAX_MESSAGE_LENGTH, ErrorCode, KafkaError, without_frames


def test_codes_equal_kios() -> None:
    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert (ours.name.lower(), ours.retriable) == (theirs.name, theirs.retriable)


def test_codes_have_no_gap_and_each_has_a_message() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))
    assert all(code.message.endswith(".") for code in ErrorCode if code is not ErrorCode.NONE)


def test_a_kafka_error_names_its_code() -> None:
    assert str(KafkaError(ErrorCode.INVALID_PARTITIONS)) == "INVALID_PARTITIONS: The number of partitions is invalid."
    error = KafkaError(ErrorCode.INVALID_PARTITIONS, "-3 partitions for t")
    assert (error.code, error.message) == (ErrorCode.INVALID_PARTITIONS, "-3 partitions for t")
    assert str(error) == "INVALID_PARTITIONS: -3 partitions for t"


def test_a_long_message_is_cut() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "x" * 40_000)
    assert len(error.message) == MAX_MESSAGE_LENGTH
    assert error.message.endswith("...")


class Buffer:
    """An object that a frame holds; a weak reference tells when it is freed."""


def caught(raised: Exception, buffers: list[weakref.ref[Buffer]]) -> Exception:
    """The exception with a context, each raised by a function that holds a buffer."""

    def fail(error: Exception) -> None:
        held = Buffer()
        buffers.append(weakref.ref(held))
        raise error

    def fail_twice() -> None:
        held = Buffer()
        buffers.append(weakref.ref(held))
        try:
            fail(ValueError("first"))
        except ValueError:
            fail(raised)

    try:
        fail_twice()
    except Exception as error:  # noqa: BLE001  as a thread hands it over
        return without_frames(error)
    raise AssertionError


@pytest.mark.parametrize("raised", [KafkaError(ErrorCode.CORRUPT_MESSAGE), OSError(5, "it is"), IndexError("a fault")])
def test_a_kept_exception_holds_no_buffers(raised: Exception) -> None:
    buffers: list[weakref.ref[Buffer]] = []
    gc.disable()
    try:
        error = caught(raised, buffers)
        assert error is raised
        assert [buffer() for buffer in buffers] == [None] * 3
    finally:
        gc.enable()


def test_a_fault_keeps_the_lines_for_the_log() -> None:
    lines = "".join(traceback.format_exception(caught(IndexError("a fault"), [])))
    assert "in fail_twice" in lines
    assert "ValueError: first" in lines
    assert caught(KafkaError(ErrorCode.CORRUPT_MESSAGE), []).__traceback__ is None


def test_a_fault_of_the_system_keeps_its_lines_too() -> None:
    assert "in fail_twice" in "".join(traceback.format_exception(caught(FileNotFoundError("a fault"), [])))


def test_causes_in_a_circle_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__context__ = second, first
    assert without_frames(first) is first


def test_a_generator_that_caught_the_exception_goes_on() -> None:
    def inner() -> Generator[None, None, None]:
        yield
        raise ValueError("to be caught")

    def outer() -> Generator[object, None, str]:
        try:
            yield from inner()
        except ValueError as error:
            yield error
        return "ended"

    steps = outer()
    next(steps)
    error = next(steps)
    assert isinstance(error, ValueError)
    without_frames(error)
    with pytest.raises(StopIteration, match="ended"):
        next(steps)


def test_a_copy_of_an_error_is_equal() -> None:
    error = KafkaError(ErrorCode.INVALID_RECORD, "refused", [(3, "no key")])
    assert vars(error.copy()) == vars(error)
