"""A store with one log, t-0, that was killed or left, for tests of what the next start makes of it."""

from __future__ import annotations

from random import Random

from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log import flushing
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, numbered, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

PARTITION = "/data/t-0"
KEY = "t", 0
FIRST = f"{PARTITION}/{0:020d}.log"


def filled(files: CrashingFiles, batches: int = 40, flush_at: int = 20) -> LogDirectory:
    """A store whose log t-0 has several segments, flushed and checkpointed in between."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(batches):
        append(log, numbered(number, producer_id=number % 3 + 1) if number < 3 else batch(1 + number % 2))
        if number == flush_at:
            flushing.flush(log)
            store.checkpoint({KEY: log.end_offset})
    return store


def killed(files: CrashingFiles) -> CrashingFiles:
    """The disk after a kill of the process."""
    return files.crash(Random(1), power=False)


def reopened(files: CrashingFiles) -> LogDirectory:
    """What the start after a kill makes of it."""
    return open_store(killed(files))


def names(files: CrashingFiles, suffix: str) -> list[str]:
    """The files of the log with this ending, in order."""
    return sorted(name for name in files.list(PARTITION) if name.endswith(suffix))


def leave_idle(files: CrashingFiles) -> None:
    """A store left cleanly and opened again, so that a kill finds it idle; its last segment has some index entries."""
    store = filled(files, batches=400)
    while len(store.logs[KEY].segments[-1].offsets.content()) < 32:
        append(store.logs[KEY], batch(timestamp=NOW_MS + store.logs[KEY].end_offset))
    store.close()
    open_store(files)
