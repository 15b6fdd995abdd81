"""Who has a log at present, and what may be done with it beside them.

A log is the loop's. Threads do some work on its files, which is begun and ended on the loop; while one is at it the
loop goes on with what cannot get in its way:

                                      flush   roll   mend   delete segments   make another of its name
    staged     appends of this turn   yes     no     no     yes               yes
    writing    a thread               yes     no     no     yes               yes
    flushing   a thread               no      yes    no     yes               yes
    rolling    a thread               no      no     no     no                no
    mending    a thread               no      no     no     no                no
    expiring   a thread               no      yes    no     no                no
    swapping   a thread               yes     yes    no     yes               no
    failed     a sync of it           no      no     yes    yes               yes
    deleted                           no      no     no     no                yes

A flush covers what is written, not what is staged or being written. Who writes or flushes has the files open and needs
no names. Who rolls, mends or deletes segments opens, makes or renames files by their names: of a log that is deleted
meanwhile they are gone with the directory, so that this ends with an error, unless there were another log of the same
name. Segments that are being deleted are not the log's any more: what comes behind them goes on, but is not safe on the
disk before they are gone, as a recovery would find them in front of it. Who swaps renames what compaction has replaced,
and what it has made, of which whoever opens it knows both names. Who mends takes a file for what its name says: it does
not begin beside that, and no names are swapped beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.storage.log.log import Log

STAGED, WRITING, FLUSHING, ROLLING, MENDING, EXPIRING, SWAPPING, FAILED, DELETED = (1 << number for number in range(9))

# What may not be done while one of these has the log.
FLUSH = FLUSHING | ROLLING | MENDING | EXPIRING | FAILED | DELETED
ROLL = STAGED | WRITING | ROLLING | MENDING | FAILED | DELETED
MEND = STAGED | WRITING | FLUSHING | ROLLING | MENDING | EXPIRING | SWAPPING | DELETED
DELETE_SEGMENTS = ROLLING | MENDING | EXPIRING | DELETED
SWAP = MENDING | SWAPPING
BY_NAME = ROLLING | MENDING | EXPIRING
_NOT_BESIDE = {ROLLING: ROLL, MENDING: MEND, EXPIRING: DELETE_SEGMENTS, SWAPPING: SWAP}


def held(log: Log) -> int:
    """All who have it."""
    return (
        log.exclusive_locks
        | (STAGED if log.staged is not None else 0)
        | (WRITING if log.being_written is not None else 0)
        | (FLUSHING if log.flushing is not None else 0)
        | (FAILED if log.sync_error is not None else 0)
        | (DELETED if log.is_retired else 0)
    )


def may(log: Log, act: int) -> bool:
    """Whether something may be done with it now: `FLUSH`, `ROLL`, `MEND`, `DELETE_SEGMENTS`, `SWAP`."""
    return not held(log) & act


def waits(log: Log, act: int) -> bool:
    """Whether it may be done once a thread gives the log back: else there is nothing to wait for."""
    return bool(held(log) & act & (WRITING | FLUSHING | BY_NAME))


def acquire(log: Log, who: int) -> None:
    """A thread begins to work with the names of its files: `ROLLING`, `MENDING`, `EXPIRING` or `SWAPPING`."""
    assert not log.exclusive_locks & _NOT_BESIDE[who], f"a thread works with the files of {log!r}"
    log.exclusive_locks |= who


def release(log: Log, who: int) -> None:
    """That thread has ended."""
    log.exclusive_locks &= ~who


def is_acquired(log: Log) -> bool:
    """Whether a thread works with the names of its files: there must not be another log with that name."""
    return bool(log.exclusive_locks)
