"""The lock of a log: the operations under way, and the operations that they exclude.

A log belongs to the loop. Threads do some work on its files, which the loop begins and ends; meanwhile the loop does
all work that is not excluded:

                                      flush   roll   repair   delete segments   make another of its name
    staged     appends of this turn   yes     no     no       yes               yes
    writing    a thread               yes     no     no       yes               yes
    flushing   a thread               no      yes    no       yes               yes
    rolling    a thread               no      no     no       no                no
    repairing  a thread               no      no     no       no                no
    deleting   a thread, segments     no      yes    no       no                no
    swapping   a thread               yes     yes    no       yes               no
    failed     a sync of the log      no      no     yes      yes               yes
    retired    the log was deleted    no      no     no       no                yes

A flush covers written bytes, not staged bytes or bytes being written. A write and a flush hold the files open and need
no names. A roll, a repair and a deletion of segments open, create or rename files by name. If the log is deleted
meanwhile, the directory is gone and the operation ends with an error, unless another log of the same name existed.
Segments that are being deleted no longer belong to the log. Later segments are used as before, but are not durable
until the deletion has ended: a recovery would find the deleted ones before them. A swap renames the segments that
compaction has replaced, and the new ones; whatever opens such a file knows both names. A repair trusts the names of
files: so a repair and a swap exclude each other.
A truncation of a log in use holds the lock of a repair.

"""

STAGED, WRITING, FLUSHING, ROLLING, REPAIRING, DELETING, SWAPPING, FAILED, RETIRED = (
    1 << number for number in range(9)
)

# The operations that exclude each operation.
FLUSH = FLUSHING | ROLLING | REPAIRING | DELETING | FAILED | RETIRED
ROLL = STAGED | WRITING | ROLLING | REPAIRING | FAILED | RETIRED
REPAIR = STAGED | WRITING | FLUSHING | ROLLING | REPAIRING | DELETING | SWAPPING | RETIRED
DELETE_SEGMENTS = ROLLING | REPAIRING | DELETING | RETIRED
SWAP = REPAIRING | SWAPPING

BY_NAME = ROLLING | REPAIRING | DELETING
"""The operations that open, create or rename files of the log by name."""
EXCLUSIVE = BY_NAME | SWAPPING
"""The operations of threads on the names of files."""
ENDS_BY_ITSELF = WRITING | FLUSHING | BY_NAME
"""The operations of threads: excluded work may be done later."""
EXCLUDED_BY = {ROLLING: ROLL, REPAIRING: REPAIR, DELETING: DELETE_SEGMENTS, SWAPPING: SWAP}
"""The exclusive operations, each with the operations that exclude it."""


class LogLock:
    """The lock of one log. The modules that change the log note what they do in `operations`."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations = 0
        """All operations under way."""

    @property
    def is_exclusive(self) -> bool:
        """Whether a thread works with the names of files."""
        return bool(self.operations & EXCLUSIVE)

    def may(self, operation: int) -> bool:
        """Whether an operation may begin now: `FLUSH`, `ROLL`, `REPAIR`, `DELETE_SEGMENTS`, `SWAP`."""
        return not self.operations & operation

    def waits(self, operation: int) -> bool:
        """Whether an operation may begin once a thread has ended another one; else waiting is useless."""
        return bool(self.operations & operation & ENDS_BY_ITSELF)

    def acquire(self, operation: int) -> None:
        """Begin an exclusive operation of a thread: `ROLLING`, `REPAIRING`, `DELETING` or `SWAPPING`."""
        assert not self.operations & EXCLUDED_BY[operation] & EXCLUSIVE, "a thread works with the files of the log"
        self.operations |= operation

    def release(self, operation: int) -> None:
        self.operations &= ~operation
