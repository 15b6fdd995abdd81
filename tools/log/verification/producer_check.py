"""Compare producer snapshots with the producers' states, replayed from the batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.records.control import Marker
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log import snapshots
from headgate.storage.log.producers import DEFAULT_EXPIRATION_MS, SNAPSHOT_SUFFIX, Producers


class ProducerCheck:
    """Replays the producers' states batch by batch, and compares them with each snapshot on the way."""

    def __init__(self, files: Files, directory: str, names: Mapping[str, int], base_offset: int) -> None:
        self._files = files
        self._directory = directory
        self._pending = sorted(snapshots.offsets(names))
        self._replayed = Producers()
        self._problems: list[tuple[str, str]] = []
        # Only the first snapshot knows the producers of batches before the first segment
        while self._pending and self._pending[0] <= base_offset:
            self._replayed = self._load(self._pending.pop(0)) or self._replayed

    def observe(self, header: BatchHeader, marker: Marker | None) -> None:
        """Replay the next batch, after comparing the snapshots before it."""
        while self._pending and self._pending[0] <= header.base_offset:
            self._compare(self._pending.pop(0))
        self._replayed.record(header, header.base_offset, marker)

    def open_transactions(self) -> Mapping[int, int]:
        """Producer id -> first offset of the transactions that are open at this point of the replay."""
        return dict(self._replayed.transactions.open)

    def finish(self, end_offset: int) -> list[tuple[str, str]]:
        """Compare the last snapshots. Returns a path and a sentence for each problem."""
        for offset in self._pending:
            if offset <= end_offset:
                self._compare(offset)
            else:
                sentence = (
                    f"its offset is {offset}, and the log ends at {end_offset}; the next start removes the snapshot"
                )
                self._problems.append((self._path(offset), sentence))
        return self._problems

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def _load(self, offset: int) -> Producers | None:
        try:
            return Producers.from_snapshot(self._files.read(self._path(offset)))
        except BadFile as error:
            self._problems.append((self._path(offset), f"{error}; the next start ignores the snapshot"))
            return None

    def _compare(self, offset: int) -> None:
        snapshot = self._load(offset)
        if snapshot is not None:
            written_ms = self._files.modified_ms(self._path(offset))
            for problem in find_contradictions(snapshot, self._replayed, written_ms):
                self._problems.append((self._path(offset), problem))


def find_contradictions(snapshot: Producers, replayed: Producers, written_ms: int) -> Iterable[str]:
    """Sentences about contradictions between a snapshot and the producers replayed up to its offset.

    A snapshot may know batches that retention or compaction has removed since. It must know every batch that is still
    there, except batches of producers silent for producer.id.expiration.ms before `written_ms`.
    """
    for producer_id, state in replayed.by_id.items():
        known = snapshot.by_id.get(producer_id)
        if known is None:
            if written_ms - state.last_timestamp < DEFAULT_EXPIRATION_MS and state.batches:
                last_offset = state.batches[-1].last_offset
                yield f"the snapshot lacks producer {producer_id}, which wrote up to offset {last_offset}"
            continue
        ours, theirs = (one.batches[-1] if one.batches else None for one in (state, known))
        if ours is None or (theirs is not None and theirs.last_offset > ours.last_offset):
            continue
        if theirs is None or (theirs.last_offset, theirs.last_sequence) != (ours.last_offset, ours.last_sequence):
            found = "nothing" if theirs is None else f"sequence {theirs.last_sequence} at offset {theirs.last_offset}"
            wrote = f"sequence {ours.last_sequence} at offset {ours.last_offset}"
            yield f"producer {producer_id} wrote {wrote}, and the snapshot says {found}"
        elif known.epoch < state.epoch:
            yield f"producer {producer_id} is in epoch {state.epoch}, and the snapshot says {known.epoch}"
