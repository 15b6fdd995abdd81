"""What a start makes of one wrong bit in what lies on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import CRC_START, BatchHeader, check_crc, read_header
from headgate.storage.config import LogConfig
from headgate.storage.disk import checkpoint
from headgate.storage.disk.pool import SWAP_SUFFIX
from headgate.storage.log.log import Log
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.storage.segment.segment_file import LOG_SUFFIX
from headgate.storage.tests.builders import DIRECTORY, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

KEY = "t", 0
PARTITION = f"{DIRECTORY}/t-0"
UNCHECKED = CRC_START - 5
"""Base offset, length and leader epoch are before the magic: no checksum covers them."""


def look_at_wrong_bit(files: CrashingFiles, config: LogConfig, random: Random) -> str:
    """Let a bit of some segment be wrong, and start; what came of it, in a word.

    A start keeps the partition closed, with all its files as they are, or cuts it before the wrong batch, if that was
    not known to be safe. Else the batch is served as it is: then its checksum tells the reader.
    """
    if not files.exists(PARTITION):
        return "empty"
    everything = {path: files.read(path) for path in segments(files)}  # what compaction was about to put there, too
    before = {path: content for path, content in everything.items() if path.endswith(LOG_SUFFIX)}
    path = random.choice(sorted(path for path, content in before.items() if content) or [""])
    if not path:
        return "empty"
    at = files.flip(path, random)
    found = batch_at(before[path], at)
    if found is None:  # it belongs to no batch
        return "unchecked"
    header, within = found
    sound = {view for content in everything.values() for view in split_stored(content)}
    damaged = {path: bytes(files.file(path).content) for path in before}
    safe_end = (checkpoint.read_offsets(files, f"{DIRECTORY}/{checkpoint.RECOVERY_POINTS}") or {}).get(KEY, 0)
    store = open_store(files, config)
    if KEY in store.failed:
        assert KEY not in store.refused, store.failed
        there = {path: content for path, content in damaged.items() if not is_replaced(files, path, everything)}
        assert all(is_kept(files, path, content, safe_end) for path, content in there.items())
        return "closed"
    log = store.logs[KEY]
    if within < UNCHECKED:
        return "unchecked"
    views = read_all(log)
    wrong = [view for view in views if view not in sound]
    assert not any(map(check_crc, wrong)), "a reader takes it for what was sent"
    if header.base_offset < safe_end:
        assert log.end_offset > header.last_offset, "what was safe is not cut off"
        return "seen" if wrong else "passed over"
    assert not wrong, "it was looked at, and should have been found"
    return "cut"


def is_kept(files: CrashingFiles, path: str, content: bytes, safe_end: int) -> bool:
    """Whether a segment is as it was; or behind what was safe cut off, and that kept aside, unless it is all zeros.

    A start does that to what a power cut has torn, before it comes to what is wrong elsewhere.
    """
    left = bytes(files.file(path).content) if files.exists(path) else b""
    rest = content.removeprefix(left)
    if not rest.strip(b"\0"):
        return content == left + rest
    safe = takewhile(lambda batch: read_header(batch).last_offset < safe_end, split_stored(content))
    aside = [f"{PARTITION}/{name}" for name in files.list(PARTITION) if name.endswith(TORN_SUFFIX)]
    is_aside = any(one.startswith(f"{path}.{len(left)}.") and files.read(one) == rest for one in aside)
    return content == left + rest and is_aside and sum(map(len, safe)) <= len(left)


def is_replaced(files: CrashingFiles, path: str, everything: Mapping[str, bytes]) -> bool:
    """Whether a start has ended a compaction of this segment, before it came to what is wrong elsewhere."""
    for swap, content in everything.items():
        first, batches = swap.removesuffix(SWAP_SUFFIX), split_stored(content)
        if swap.endswith(LOG_SUFFIX + SWAP_SUFFIX) and batches and files.exists(first):
            covered = range(base_in(first), read_header(batches[-1]).last_offset + 1)
            if base_in(path) in covered and files.read(first) == content:
                return True
    return False


def base_in(path: str) -> int:
    """The base offset of a segment."""
    return int(path.rpartition("/")[2].partition(".")[0])


def segments(files: CrashingFiles) -> list[str]:
    """The `.log` files, whatever follows that suffix."""
    return [f"{PARTITION}/{name}" for name in files.list(PARTITION) if LOG_SUFFIX in name]


def batch_at(content: bytes, at: int) -> tuple[BatchHeader, int] | None:
    """The batch that holds a byte, and how far the byte is from where it begins."""
    position = 0
    for data in split_stored(content):
        if position + len(data) > at:
            return read_header(data), at - position
        position += len(data)
    return None


def split_stored(content: bytes) -> list[bytes]:
    """The whole batches of a file; behind them may be what a failed write has left."""
    found, position = list[bytes](), 0
    with suppress(KafkaError):
        while position < len(content):
            size = read_header(content, position).size
            if position + size > len(content):
                break
            found.append(content[position : position + size])
            position += size
    return found


def read_all(log: Log) -> list[bytes]:
    """What a reader gets, up to where it is told that the disk is damaged, if it is."""
    offset, found = log.start_offset, list[bytes]()
    while offset < log.end_offset:
        try:
            piece = log.read(offset, 500, log.end_offset, at_least_one=True)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            break
        if piece is None:  # the last batch says that it ends earlier
            break
        batches = split_stored(piece.read())
        if not batches:
            break
        found += batches
        last = read_header(batches[-1]).last_offset
        if last < offset:
            break
        offset = last + 1
    return found
