"""The close of a log: what it writes, and what it undoes."""

from __future__ import annotations

from random import Random

import pytest

from headgate.protocol.errors import KafkaError
from headgate.storage.log import appending, closing, flushing, log_lock
from headgate.storage.tests.builders import NOW_MS, SMALL, append, batch, files_of, new_log, open_store


def test_a_closed_log_survives_a_power_cut() -> None:
    log = new_log()
    append(log, *(batch() for _ in range(5)))
    closing.close(log)
    again = open_store(files_of(log).crash(Random(1), power=True)).logs["t", 0]
    assert again.end_offset == log.recovery_point == 5


def test_a_log_without_changes_needs_no_flush() -> None:
    log = new_log()
    assert not closing.finish(log)
    append(log, batch())
    assert closing.finish(log)
    flushing.flush(log)
    assert not closing.finish(log)


def test_a_write_of_a_thread_is_undone() -> None:
    log = new_log(config=SMALL)
    append(log, batch())
    appending.stage(log, batch(), 0, NOW_MS)
    staged = appending.begin_write(log)
    assert staged is not None
    log.lock.acquire(log_lock.ROLLING)
    closing.finish(log)
    assert (log.end_offset, log.being_written, log.lock.operations) == (1, None, 0)
    assert isinstance(staged.error, KafkaError)


def test_a_log_with_a_failed_sync_is_not_closed() -> None:
    log = new_log()
    flushing.refuse_after_failed_sync(log, OSError(5, "no"))
    with pytest.raises(KafkaError, match="takes no records"):
        closing.close(log)
