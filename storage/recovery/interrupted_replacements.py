"""Completes a compaction that a crash interrupted: the new segment replaces the old segments, or is removed.

`storage.segment.replacement` explains the suffixes of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps
from headgate.storage.disk.layout import base_of
from headgate.storage.disk.pool import SWAP_SUFFIX, Pool
from headgate.storage.errors import CorruptLog
from headgate.storage.segment.replacement import CLEANED_SUFFIX, KINDS
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX

logger = logging.getLogger("headgate.storage")


def finish_steps(pool: Pool, directory: str, names: dict[str, int]) -> Steps[dict[str, int]]:
    """Complete the replacements that a crash interrupted, in slices. Returns the files afterwards, name -> bytes.

    Raises CorruptLog for a damaged new segment that was on the disk before; OSError.
    """
    if not any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        return names
    files = pool.files
    begun = [_base(name) for name in names if name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)]
    swaps = sorted(_base(name) for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    undone = set()
    for base_offset in swaps:
        if (yield from _is_undone(pool, directory, base_offset, begun, names)):
            undone.add(base_offset)
    for name in names:
        is_whole = name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and _base(name) not in undone
        if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and not is_whole:
            files.remove(f"{directory}/{name}")  # indexes too: they may belong to the old segments; they are rebuilt
    complete = [base_offset for base_offset in swaps if base_offset not in undone]
    for base_offset in complete:
        yield from _remove_replaced(pool, directory, base_offset, names)
    files.sync_directory(directory)  # replaced segments must not reappear after the renames below
    for base_offset in complete:
        path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}"
        files.rename(path + SWAP_SUFFIX, path)
    files.sync_directory(directory)
    return files.list(directory)


def _is_undone(
    pool: Pool, directory: str, base_offset: int, begun: Sequence[int], names: Mapping[str, int]
) -> Steps[bool]:
    """Whether a new segment belongs to a segment that Kafka was splitting, and an earlier part is incomplete.

    In that case the old segment still exists, and its offsets reach into the new segment. An incomplete `.cleaned` file
    of another replacement does not count.
    """
    if not any(base < base_offset for base in begun):
        return False
    logs = [_base(name) for name in names if name.endswith(LOG_SUFFIX)]
    before = max((base for base in logs if 0 <= base < base_offset), default=-1)
    if before < 0:
        return False
    old = Segment(pool, directory, before, (names[f"{before:020d}{LOG_SUFFIX}"], -1, -1, -1))
    iterator = old.iterate()
    for _ in iterator:
        yield
    old.close()
    return iterator.next_offset > base_offset


def _remove_replaced(pool: Pool, directory: str, base_offset: int, names: Mapping[str, int]) -> Steps[None]:
    """Remove the old segments that a new segment replaces. Raises CorruptLog if the new segment is damaged; OSError."""
    name = f"{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
    segment = Segment(pool, directory, base_offset, (names[name], -1, -1, -1), suffix=SWAP_SUFFIX)
    iterator = segment.iterate(check_crc_from=base_offset)
    for _ in iterator:
        yield
    segment.close()
    end_offset = max(iterator.next_offset, base_offset + 1)
    problem = iterator.problem or _problem_of_end(pool, directory, base_offset, end_offset, names)
    if problem is not None:
        raise CorruptLog(
            f"{segment.path}, left by a compaction, is damaged at byte {iterator.position}: {problem}; restore the "
            "file from a copy, or remove the file if the segments that it was to replace still exist"
        )
    logger.info("%s completes an interrupted compaction, up to offset %d", segment.path, iterator.next_offset)
    replaced = sorted(name for name in names if name.endswith(KINDS) and base_offset <= _base(name) < end_offset)
    last = max(map(_base, replaced), default=base_offset)
    for old in replaced:
        if _base(old) < last:
            pool.files.remove(f"{directory}/{old}")
    if last > base_offset:  # the last old segment limits the end of the new one, so it is removed after the others
        pool.files.sync_directory(directory)
    for old in replaced:
        if _base(old) == last:
            pool.files.remove(f"{directory}/{old}")


def _problem_of_end(
    pool: Pool, directory: str, base_offset: int, end_offset: int, names: Mapping[str, int]
) -> str | None:
    """The problem of a new segment that ends after the old ones: no checksum covers the offset of its last batch."""
    bases = [_base(name) for name in names if name.endswith(LOG_SUFFIX)]
    last = max((base for base in bases if base_offset <= base < end_offset), default=None)
    if last is None or end_offset in bases:
        return None
    old = Segment(pool, directory, last, [names.get(f"{last:020d}{kind}", -1) for kind in KINDS])
    try:
        reached = old.end_offset()
    except KafkaError as error:
        return error.message
    finally:
        old.close()
    if end_offset <= reached:
        return None
    return f"its last batch would end at offset {end_offset}, but the segments that it replaces end at {reached}"


def _base(name: str) -> int:
    base_offset = base_of(name)
    return -1 if base_offset is None else base_offset
