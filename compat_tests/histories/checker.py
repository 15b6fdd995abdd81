"""Judge a history: name each anomaly, with the smallest piece of the history that proves it.

    python -m compat_tests.histories.checker build/histories/7.jsonl

The anomalies are those for which Jepsen's tests of Kafka look. A reader is told of committed transactions only.

    duplicate            a value has two offsets
    inconsistent offsets  an offset has two values
    lost                 an acknowledged write was never read, though a later offset of its partition was
    unseen               an acknowledged write was never read, and it is behind the last offset that was read
    torn                 of a transaction that may have been committed, some writes were read and others never
    aborted read (G1a)   a value of an aborted transaction was read
    own read             a transaction read what it wrote itself
    intermediate read (G1b)  a value was read before its transaction asked to commit
    write-read cycle (G1c)   transactions read each other's writes in a circle
    skipped              a consumer passed over a record that others read
    nonmonotonic poll    a consumer read an offset again without a new position
    reordered            a producer's later write has a lower offset
    false failure        a write that failed for good was read
    unexpected value     a value was read that was never written
    aborted offsets      a group has the offset of an aborted transaction
    unexpected offset    a group has an offset that was never committed
    offsets went back    a group has an offset below one whose commit was acknowledged before
    hanging              an operation never ended, or a transaction that is still open blocks readers
    liveness             after the last fault a client did not write within the stated time

Interleaved writes of two transactions (G0) are none: Kafka orders records at the send, not at the commit.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.histories.history import FAIL, OK, Operation, Write, load, without_collector

WRITING: Final = ("send", "transaction")
SHOWN: Final = 20


class Anomaly(NamedTuple):
    """What is wrong, in a sentence, and the operations that prove it."""

    name: str
    sentence: str
    evidence: tuple[Operation, ...]

    def __str__(self) -> str:
        return "\n    ".join((f"{self.name}: {self.sentence}", *map(str, self.evidence)))


class Index:
    """What the history says of each value, offset and partition."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.history = history
        self.writers: dict[str, tuple[Operation, Write]] = {}
        # The first read of each value
        self.readers: dict[str, Operation] = {}
        self.transactions = [operation for operation in history if operation.kind == "transaction"]
        # Offsets of every record that was read, in order, and the operation that read the last one
        self.read_offsets: dict[str, list[int]] = {}
        self.last_reads: dict[str, tuple[int, Operation]] = {}
        # The first value told of each offset, and the first place of each value; other ones are anomalies
        self.values: dict[tuple[str, int], tuple[str, Operation]] = {}
        self.places: dict[str, tuple[tuple[str, int], Operation]] = {}
        self.contradictions: list[Anomaly] = []
        offsets: dict[str, set[int]] = defaultdict(set)
        for operation in history:
            for write in operation.writes:
                self.writers[write.value] = operation, write
                if write.offset is not None:
                    self._tell(write.key, write.offset, write.value, operation)
            for key, offset, value in operation.reads:
                self.readers.setdefault(value, operation)
                offsets[key].add(offset)
                if key not in self.last_reads or self.last_reads[key][0] < offset:
                    self.last_reads[key] = offset, operation
                self._tell(key, offset, value, operation)
        self.read_offsets = {key: sorted(found) for key, found in offsets.items()}

    def _tell(self, key: str, offset: int, value: str, operation: Operation) -> None:
        where = key, offset
        first, before = self.values.setdefault(where, (value, operation))
        if first != value:
            sentence = f"{key} has {first} and {value} at {offset}"
            self.contradictions.append(Anomaly("inconsistent offsets", sentence, proof(before, operation)))
        place, before = self.places.setdefault(value, (where, operation))
        if place != where:
            sentence = f"{value} is at {place} and at {where}"
            self.contradictions.append(Anomaly("duplicate", sentence, proof(before, operation)))

    def reader_at(self, key: str, offset: int) -> Operation:
        """The first operation that read an offset that was read."""
        value, operation = self.values[key, offset]
        return self.readers.get(value, operation)


def proof(*operations: Operation) -> tuple[Operation, ...]:
    """Each operation once."""
    return tuple(dict.fromkeys(operations))


@without_collector()
def check(history: Sequence[Operation], limit_s: float = 120.0) -> list[Anomaly]:
    """All anomalies of a history; none if it is what Kafka promises. An operation may last `limit_s`."""
    index = Index(history)
    cycles = list(find_cycles(index))
    in_cycles = {(id(one), id(other)) for cycle in cycles for one in cycle.evidence for other in cycle.evidence}
    return [
        *once(index.contradictions),
        *find_missing(index),
        *find_dirty_reads(index, in_cycles),
        *cycles,
        *find_wrong_polls(index),
        *find_reordered(index),
        *find_wrong_offsets(index),
        *find_hanging(index, limit_s),
        *find_late(index),
    ]


def once(anomalies: Iterable[Anomaly]) -> Iterable[Anomaly]:
    """The first of those that say the same: every reader sees a contradiction again."""
    return {(anomaly.name, anomaly.sentence): anomaly for anomaly in reversed(list(anomalies))}.values()


def find_missing(index: Index) -> Iterator[Anomaly]:
    """Acknowledged writes that were never read, and transactions of which a part was never read."""
    for operation in index.history:
        if operation.kind not in WRITING or operation.outcome == FAIL:
            continue
        is_transaction = operation.kind == "transaction"
        read = [write for write in operation.writes if write.value in index.readers]
        missing = [write for write in operation.writes if write.value not in index.readers]
        if is_transaction and read and missing:
            evidence = operation, index.readers[read[0].value]
            sentence = (
                f"{shown(write.value for write in read)} were read, {shown(write.value for write in missing)} never"
            )
            yield Anomaly("torn", sentence, evidence)
        elif operation.outcome == OK or not is_transaction:
            yield from (_missing(index, operation, write) for write in missing if write.outcome == OK)


def _missing(index: Index, operation: Operation, write: Write) -> Anomaly:
    last, reader = index.last_reads.get(write.key, (-1, None))
    if reader is None or write.offset is None or last <= write.offset:
        sentence = f"{write.value}, acknowledged at {write.key} {write.offset}, was never read, nor was a later offset"
        return Anomaly("unseen", sentence, (operation,))
    # The earliest record behind it is the least that proves the loss
    offsets = index.read_offsets[write.key]
    after = offsets[bisect_left(offsets, write.offset + 1)]
    reader = index.reader_at(write.key, after)
    sentence = f"{write.value}, acknowledged at {write.key} {write.offset}, was never read, but {after} was"
    return Anomaly("lost", sentence, (operation, reader))


def find_dirty_reads(index: Index, in_cycles: set[tuple[int, int]]) -> Iterator[Anomaly]:
    """Values read that were aborted, not yet committed, failed, or never written; once for each value."""
    reported: set[str] = set()
    for reader in index.history:
        for key, offset, value in reader.reads:
            writer, write = index.writers.get(value, (None, None))
            if value not in reported and (name := _fault_of_read(reader, writer, write, in_cycles)):
                reported.add(value)
                evidence = (reader,) if writer is None or writer is reader else (writer, reader)
                yield Anomaly(name, f"{value} was read at {key} {offset}", evidence)


def _fault_of_read(
    reader: Operation, writer: Operation | None, write: Write | None, in_cycles: set[tuple[int, int]]
) -> str:
    if writer is None or write is None:
        return "unexpected value"
    if writer is reader:
        return "own read"
    if writer.kind == "transaction":
        if writer.outcome == FAIL:
            return "aborted read"
        is_early = None not in (reader.ended_ns, writer.decided_ns) and (reader.ended_ns or 0) < (
            writer.decided_ns or 0
        )
        return "intermediate read" if is_early and (id(writer), id(reader)) not in in_cycles else ""
    return "false failure" if FAIL in (writer.outcome, write.outcome) else ""


def find_cycles(index: Index) -> Iterator[Anomaly]:
    """One shortest circle for each set of transactions that read each other's writes."""
    edges: dict[Operation, list[Operation]] = defaultdict(list)
    for reader in index.transactions:
        if reader.outcome == FAIL:
            continue
        for _key, _offset, value in reader.reads:
            writer, _ = index.writers.get(value, (None, None))
            if writer is not None and writer is not reader and writer.kind == "transaction" and writer.outcome != FAIL:
                edges[writer].append(reader)
    for members in strong_components(edges):
        cycle = shortest_cycle(edges, members)
        names = " -> ".join(f"{one.process} #{one.number}" for one in (*cycle, cycle[0]))
        yield Anomaly("write-read cycle", f"each read what the one before wrote: {names}", tuple(cycle))


def strong_components(edges: dict[Operation, list[Operation]]) -> Iterator[set[Operation]]:
    """Sets of two and more transactions that reach each other; Tarjan's algorithm, without recursion."""
    order: dict[Operation, int] = {}
    low: dict[Operation, int] = {}
    stack: list[Operation] = []
    on_stack: set[Operation] = set()
    for root in list(edges):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(edges.get(root, ())))]
        while path:
            node, rest = path[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    path.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], order[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    members = set(_pop_to(stack, node))
                    on_stack -= members
                    if len(members) > 1:
                        yield members


def _pop_to(stack: list[Operation], node: Operation) -> Iterator[Operation]:
    while True:
        member = stack.pop()
        yield member
        if member is node:
            return


def shortest_cycle(edges: dict[Operation, list[Operation]], members: set[Operation]) -> list[Operation]:
    """The shortest circle through the first of the members."""
    first = min(members, key=lambda operation: operation.began_ns)
    before: dict[Operation, Operation] = {}
    waiting = deque([first])
    while first not in before:
        node = waiting.popleft()
        for target in edges[node]:
            if target in members and target not in before:
                before[target] = node
                waiting.append(target)
    cycle = [first]
    while (node := before[cycle[-1]]) is not first:
        cycle.append(node)
    return cycle[:1] + cycle[:0:-1]


def find_wrong_polls(index: Index) -> Iterator[Anomaly]:
    """Follow the position of each consumer in each partition."""
    positions: dict[str, dict[str, int | None]] = defaultdict(dict)
    before: dict[tuple[str, str], Operation] = {}
    for operation in index.history:
        if operation.kind == "assign":
            positions[operation.process] = dict(operation.offsets)
            before |= {(operation.process, key): operation for key in operation.offsets}
            continue
        of_process = positions[operation.process]
        for key, offset, value in operation.reads:
            position = of_process.get(key)
            last = before.get((operation.process, key), operation)
            if position is not None and offset < position:
                sentence = f"{value} at {key} {offset} was read at the position {position}"
                yield Anomaly("nonmonotonic poll", sentence, proof(last, operation))
            elif position is not None:
                yield from _skipped(index, key, range(position, offset), (last, operation))
            of_process[key] = offset + 1
            before[operation.process, key] = operation


def _skipped(index: Index, key: str, passed: range, around: tuple[Operation, Operation]) -> Iterator[Anomaly]:
    offsets = index.read_offsets[key]
    found = bisect_left(offsets, passed.start)
    if offsets[found] < passed.stop:
        value, reader = index.values[key, offsets[found]][0], index.reader_at(key, offsets[found])
        sentence = f"{value} at {key} {offsets[found]} was passed over, from {passed.start} to {passed.stop}"
        yield Anomaly("skipped", sentence, proof(*around, reader))


def find_reordered(index: Index) -> Iterator[Anomaly]:
    """Acknowledged writes of one producer to one partition have rising offsets."""
    last: dict[tuple[str, str], tuple[int, str, Operation]] = {}
    for operation in index.history:
        for key, value, offset, outcome in operation.writes:
            if offset is None or outcome != OK:
                continue
            before = last.get((operation.process, key))
            if before is not None and offset < before[0]:
                sentence = f"{value} is at {key} {offset}, {before[1]} was sent before and is at {before[0]}"
                yield Anomaly("reordered", sentence, proof(before[2], operation))
            last[operation.process, key] = offset, value, operation


class Commits:
    """What transactions committed, or aborted, for one partition of a group."""

    def __init__(self) -> None:
        self.by_offset: dict[int, list[Operation]] = defaultdict(list)
        # When each commit was acknowledged, and the highest one acknowledged by then
        self.times_ns: list[int] = []
        self.highest: list[tuple[int, Operation]] = []

    def acknowledge(self, offset: int, ended_ns: int, commit: Operation) -> None:
        """In the order of the times."""
        self.times_ns.append(ended_ns)
        is_higher = not self.highest or self.highest[-1][0] < offset
        self.highest.append((offset, commit) if is_higher else self.highest[-1])

    def judge(self, told: Operation, key: str, offset: int) -> Anomaly | None:
        what = f"{told.group} has {offset} for {key}"
        same = [commit for commit in self.by_offset.get(offset, ()) if commit.began_ns < (told.ended_ns or 0)]
        if not any(commit.outcome != FAIL for commit in same):
            return Anomaly("aborted offsets" if same else "unexpected offset", what, (*same[:1], told))
        before = bisect_left(self.times_ns, told.began_ns)
        if before and offset < self.highest[before - 1][0]:
            highest, commit = self.highest[before - 1]
            return Anomaly("offsets went back", f"{what}, after {highest}", (commit, told))
        return None


def find_wrong_offsets(index: Index) -> Iterator[Anomaly]:
    """Compare what coordinators told of groups with what transactions committed, or aborted."""
    commits: dict[tuple[str, str], Commits] = defaultdict(Commits)
    for transaction in sorted(index.transactions, key=lambda transaction: transaction.ended_ns or 0):
        for key, offset in transaction.offsets.items():
            if offset is not None:
                commits[transaction.group, key].by_offset[offset].append(transaction)
                if transaction.outcome == OK and transaction.ended_ns is not None:
                    commits[transaction.group, key].acknowledge(offset, transaction.ended_ns, transaction)
    reported: set[tuple[str, str, int]] = set()
    for told in (operation for operation in index.history if operation.kind == "committed" and operation.outcome == OK):
        for key, offset in told.offsets.items():
            if offset is None or (told.group, key, offset) in reported:
                continue
            if anomaly := commits[told.group, key].judge(told, key, offset):
                reported.add((told.group, key, offset))
                yield anomaly


def find_hanging(index: Index, limit_s: float) -> Iterator[Anomaly]:
    for operation in index.history:
        if operation.ended_ns is None:
            yield Anomaly("hanging", "the operation never ended", (operation,))
        elif operation.ended_ns - operation.began_ns > limit_s * 1e9:
            yield Anomaly("hanging", f"the operation lasted longer than {limit_s:.0f} s", (operation,))
        blocked = [key for key, end in operation.ends.items() if (operation.offsets.get(key) or 0) < end]
        if blocked:
            yield Anomaly(
                "hanging", f"transactions that are still open block readers of {shown(blocked)}", (operation,)
            )


def find_late(index: Index) -> Iterator[Anomaly]:
    """Each process that wrote before the last heal has written again within the bound."""
    heal = next((operation for operation in reversed(index.history) if operation.kind == "heal"), None)
    if heal is None:
        return
    writing = [operation for operation in index.history if operation.kind in WRITING]
    latest_ns = heal.began_ns + heal.bound_s * 1e9
    well = {
        operation.process
        for operation in writing
        if operation.outcome == OK and operation.began_ns >= heal.began_ns and (operation.ended_ns or 0) <= latest_ns
    }
    for process in dict.fromkeys(operation.process for operation in writing if operation.began_ns < heal.began_ns):
        if process not in well:
            tried = [operation for operation in writing if operation.process == process]
            sentence = f"{process} wrote nothing within {heal.bound_s:.0f} s of the last heal"
            yield Anomaly("liveness", sentence, (heal, tried[-1]))


def shown(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def report(anomalies: Sequence[Anomaly]) -> str:
    """The first anomalies, and how many there are of each."""
    counts: dict[str, int] = defaultdict(int)
    for anomaly in anomalies:
        counts[anomaly.name] += 1
    return "\n".join((*map(str, anomalies[:SHOWN]), ", ".join(f"{count} {name}" for name, count in counts.items())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check history files; 1 if one has an anomaly."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.histories.checker")
    parser.add_argument("files", nargs="+", type=Path)
    found = 0
    for path in parser.parse_args(arguments).files:
        with path.open() as lines:
            history = load(lines)
        anomalies = check(history)
        found += len(anomalies)
        sys.stdout.write(f"{path}: {len(history)} operations, {len(anomalies)} anomalies\n{report(anomalies)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
