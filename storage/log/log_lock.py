"""The lock of a log: which operations are under way, and which others they exclude.

A log belongs to the loop. Threads do some work on its files, which the loop begins and ends; meanwhile the loop goes on
with whatever cannot get in the way:

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

A flush covers what is written, not what is staged or being written. A write and a flush have the files open and need no
names. A roll, a repair and a deletion of segments open, make or rename files by their names: of a log that is deleted
meanwhile the files are gone with the directory, so that the operation ends with an error, unless there were another log
of the same name. Segments that are being deleted are not the log's any more: what comes behind them goes on, but is not
safe on the disk before they are gone, as a recovery would find them in front of it. A swap renames the segments that
compaction has replaced, and those that it has made; whoever opens such a file knows both names. A repair takes a file
for what its name says: it does not begin beside a swap, and no swap begins beside it.

`LogState` holds the lock: `may`, `waits`, `acquire`, `release`.
"""

STAGED, WRITING, FLUSHING, ROLLING, REPAIRING, DELETING, SWAPPING, FAILED, RETIRED = (
    1 << number for number in range(9)
)

# What excludes each operation.
FLUSH = FLUSHING | ROLLING | REPAIRING | DELETING | FAILED | RETIRED
ROLL = STAGED | WRITING | ROLLING | REPAIRING | FAILED | RETIRED
REPAIR = STAGED | WRITING | FLUSHING | ROLLING | REPAIRING | DELETING | SWAPPING | RETIRED
DELETE_SEGMENTS = ROLLING | REPAIRING | DELETING | RETIRED
SWAP = REPAIRING | SWAPPING

BY_NAME = ROLLING | REPAIRING | DELETING
"""The operations that open, make or rename files of the log by their names."""
ENDS_BY_ITSELF = WRITING | FLUSHING | BY_NAME
"""The operations of threads: whatever they exclude may be done later."""
EXCLUDED_BY = {ROLLING: ROLL, REPAIRING: REPAIR, DELETING: DELETE_SEGMENTS, SWAPPING: SWAP}
"""The exclusive operations, each with what excludes it."""
