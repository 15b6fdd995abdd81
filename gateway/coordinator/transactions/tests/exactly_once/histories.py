"""A whole broker, whose clients copy records exactly once: histories of one seed, with kills, slow disks, lost answers.

Each copier reads partitions of `in`, writes to `out`, and commits its offsets of the group, in transactions. It goes on
as producers do. An answer that was lost is asked for again, or the transaction is aborted; an error of the moment is
waited out; after any other error the client begins anew, from the offset of the group. A zombie is a second client of
the same id. In some histories a partition belongs to a client for good; in the others the copiers are members of a
group, classic or of KIP-848, and partitions move. Beside them idempotent producers write without transactions.

Some clients speak the old protocol, others the new one (KIP-890). In the new one any request may arrive late, or once
more, whenever it likes, and any marker; in the old one only records may, as Kafka promises no more there.

All requests go through connections, in pieces; some are under way together. In some histories the process is killed; in
others, with `headgate.flush=commit`, the power fails and what was not synced is lost.

What holds after each step: no last stable offset goes back, and no offset of the group. What holds at the end, without
faults: every record is there once and in order, whenever the copies were read, and nothing of a transaction is left
open. A history of a seed is the same every time:

    python -m headgate.gateway.coordinator.transactions.tests.exactly_once.histories SEED
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from headgate.gateway.coordinator.transactions.markers import Marker, Written
from headgate.gateway.coordinator.transactions.tests.exactly_once import members
from headgate.gateway.coordinator.transactions.tests.exactly_once.clients import (
    LOST,
    PARTITIONS,
    RECORDS,
    TIMEOUT_MS,
    WRITERS,
    Asked,
    Client,
    Copier,
    Reader,
    Writer,
    codes_of,
)
from headgate.gateway.coordinator.transactions.tests.exactly_once.wires import Wire
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.update_features import (
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

STEPS: Final = 250
FINAL_STEPS: Final = 6_000


class HistoryNode(HandlerBroker):
    """A node on a disk that may be cut off at any write, at a time that goes on over restarts."""

    def __init__(self, files: CrashingFiles, now_ms: int, **settings: str) -> None:
        self._files = files
        self._now_ms = now_ms
        super().__init__(Path("/data"), **settings)

    def disk(self) -> CrashingFiles:
        return self._files

    def start(self) -> None:
        self.time.clock.wall_ms = self._now_ms
        self.random = Random(self._now_ms)  # each start gives other ids to members
        super().start()


class World:
    """The broker and its clients; `step` takes one step of the history."""

    def __init__(self, seed: int, **settings: str) -> None:
        self.random = random = Random(seed)
        self.has_power_cuts = random.random() < 0.5
        flush = {"headgate_flush": "commit"} if self.has_power_cuts else {}
        self._settings = {**members.SETTINGS, **flush, **settings}
        self.files = CrashingFiles()
        self.files.short_writes = Random(seed)
        self.now_ms = 1_700_000_000_000
        self.kills = 0
        self._late: list[Asked] = []
        self._markers: list[tuple[Marker, str, int]] = []
        self._works: list[Callable[[], None]] = []
        self._wires: dict[object, Wire] = {}
        self._stable: dict[tuple[str, int], int] = {}
        self._committed: dict[int, int] = {}
        self._start()
        for topic in ("in", "out"):
            self.node.services.metadata.create_topic(topic, PARTITIONS)
        self.membership = random.choice(("alone", "classic", "consumer"))
        self.clients: list[Client] = [self._copier(index, is_new=random.random() < 0.5) for index in range(PARTITIONS)]
        self.clients += [Writer(WRITERS + number, random) for number in range(random.randint(0, 2))]
        self.readers = [Reader(out, level) for out in range(PARTITIONS) for level in (READ_UNCOMMITTED, READ_COMMITTED)]

    def _copier(self, number: int, *, is_new: bool) -> Copier:
        member = members.Member([number])
        if self.membership == "classic":
            member = members.ClassicMember(range(PARTITIONS), self.random)
        elif self.membership == "consumer":
            member = members.ConsumerMember(self.random)
        return Copier(number, self.random, member, self._is_copied, is_new=is_new)

    def _is_copied(self) -> bool:
        return self._committed == dict.fromkeys(range(PARTITIONS), RECORDS)

    def _start(self) -> None:
        self.node = HistoryNode(self.files, self.now_ms, **self._settings)
        self.node.time.scheduler.threads = self._in_thread
        self._append_marker = self.node.services.markers.append
        self.node.services.markers.append = self._note_marker  # type: ignore[method-assign]
        self.has_faults = True

    def _in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """A thread ends when the history says so."""

        def run() -> None:
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001  as the scheduler hands it on
                result = error
            done(result)

        self._works.append(run)

    # Steps

    def step(self) -> None:
        """One event; a kill may come in the middle of it."""
        event = self.random.choices(list(self.EVENTS), list(self.EVENTS.values()))[0]
        self._guarded(lambda: event(self))
        self.check()

    def _guarded(self, event: Callable[[], None]) -> None:
        try:
            event()
            self.node.services.batcher.write_all()
            self.node.time.advance()
        except PowerCut:
            self._restart()

    def run_client(self) -> None:
        client = self.random.choice(self.clients)
        if client.naps and self.has_faults:
            client.naps -= 1
            self.node.time.advance(members.SESSION_MS // 10)
        elif not client.is_waiting and not client.is_done:
            self._send(client)

    def _send(self, client: Client) -> None:
        asked = client.step()
        if not asked:
            return
        if self.has_faults and all(map(client.may_repeat, asked)) and self.random.random() < 0.05:
            self._late += asked
            client.take(LOST)
            return
        wire = self._wire(client, len(asked), client.take)
        self._put(wire, asked, is_whole=not self.has_faults or self.random.random() < 0.8)
        if self.has_faults and self.random.random() < 0.05:
            self._cut(client)

    def _wire(self, owner: object, count: int, take: Callable[[Any], object]) -> Wire:
        """The connection for requests, whose answers are taken together."""
        answers: list[Any] = []

        def answered(response: Any) -> None:
            answers.append(response)
            if len(answers) == count:
                take(answers)

        wire = self._wires.get(owner)
        if wire is None:
            wire = self._wires[owner] = Wire(self.node, self.random)
        wire.answered = answered
        return wire

    def _put(self, wire: Wire, asked: Sequence[Asked], *, is_whole: bool) -> None:
        for each in asked:
            wire.send(each.request, each.version)
        wire.deliver(is_whole=is_whole)

    def _cut(self, client: Client) -> None:
        """The client's connection breaks."""
        if client.is_waiting:
            self._wires.pop(client).cut()
            client.take(LOST)

    def cut_connection(self) -> None:
        """A connection breaks, whatever is under way."""
        self._cut(self.random.choice(self.clients))

    def deliver(self) -> None:
        """More bytes of the requests arrive."""
        for wire in list(self._wires.values()):
            wire.deliver(is_whole=not self.has_faults or self.random.random() < 0.5)

    def read(self, reader: Reader | None = None) -> None:
        """A consumer reads on."""
        reader = reader or self.random.choice(self.readers)
        if not reader.is_waiting:
            reader.is_waiting = True
            wire = self._wire(reader, 1, lambda answers: reader.take(answers[0]))
            self._put(wire, [Asked(reader.request, 12)], is_whole=True)

    def repeat(self) -> None:
        """A request of long ago arrives once more."""
        client = self.random.choice(self.clients)
        if client.sent:
            asked = self.random.choice(client.sent)
            if client.may_repeat(asked):
                self._send_for_nobody(asked)

    def arrive_late(self) -> None:
        """A request arrives whose client has given it up."""
        if self._late:
            self._send_for_nobody(self._late.pop(self.random.randrange(len(self._late))))

    def _send_for_nobody(self, asked: Asked) -> None:
        self._put(self._wire(object(), 1, codes_of), [asked], is_whole=True)

    def add_zombie(self) -> None:
        if len(self.clients) < 3 * PARTITIONS:
            original = self.random.choice([client for client in self.clients if isinstance(client, Copier)])
            self.clients.append(self._copier(original.number, is_new=original.is_new))

    def end_work(self) -> None:
        """A thread has done its work."""
        if self._works:
            self._works.pop(self.random.randrange(len(self._works)))()

    def pass_time(self) -> None:
        self.node.time.advance(self.random.choice([1, 10, 100, 1_000, TIMEOUT_MS]))

    def slow_down(self) -> None:
        """Threads write for a while."""
        for status in self.node.services.partitions.directories.values():
            status.disk.is_slow = True

    def speed_up(self) -> None:
        for status in self.node.services.partitions.directories.values():
            status.disk.is_slow = False

    def _note_marker(self, marker: Marker, topic: str, index: int, resume: Written) -> None:
        self._markers.append((marker, topic, index))
        self._append_marker(marker, topic, index, resume)

    def repeat_marker(self) -> None:
        """A marker of the new protocol arrives once more, as from a coordinator that was cut off for a while."""
        if self._markers:
            marker, topic, index = self.random.choice(self._markers)
            if marker.has_raised_epoch:
                self._append_marker(marker, topic, index, lambda _: None)
                self.node.services.markers.write_staged()

    def change_level(self) -> None:
        """An operator finalizes the feature at another level, whatever is open."""
        kind = self.random.choice((UPGRADE, UNSAFE_DOWNGRADE))  # refused in the wrong direction
        update = FeatureUpdateKey("transaction.version", self.random.randint(0, 2), upgrade_type=kind)
        self._send_for_nobody(Asked(UpdateFeaturesRequest(feature_updates=[update]), 1))

    def fail_write(self) -> None:
        """One of the next writes to a log fails."""
        self.files.fail(errno.ENOSPC, "write", path=".log", after=self.random.randint(0, 5), times=1)

    def cut_soon(self) -> None:
        """The process is killed, or the power fails, in the middle of one of the next writes."""
        self.files.cut_after = self.random.randint(0, 12)

    def kill(self) -> None:
        raise PowerCut

    EVENTS: Final = {
        run_client: 60.0,
        deliver: 10.0,
        cut_connection: 0.5,
        end_work: 15.0,
        read: 6.0,
        repeat: 4.0,
        arrive_late: 3.0,
        repeat_marker: 3.0,
        change_level: 1.0,
        fail_write: 1.0,
        pass_time: 3.0,
        add_zombie: 0.5,
        slow_down: 1.0,
        speed_up: 2.0,
        cut_soon: 1.0,
        kill: 0.5,
    }

    def _restart(self) -> None:
        """The process is gone: what was written, or synced, is there, and nobody hears of what was asked."""
        self.kills += 1
        self.now_ms = self.node.time.clock.now_ms() + 1
        self._works.clear()
        self._wires.clear()
        self.files = self.files.crash(self.random, power=self.has_power_cuts)
        self._start()
        for client in self.clients:
            if client.is_waiting:
                client.take(LOST)
        for reader in self.readers:
            reader.is_waiting = False

    # What holds

    def check(self) -> None:
        """After each step."""
        services = self.node.services
        for replica in services.partitions:
            key = replica.topic, replica.index
            stable = replica.last_stable_offset
            assert stable >= self._stable.get(key, 0), f"the last stable offset of {key} went back"
            self._stable[key] = stable
        try:
            shards = list(services.groups.shards())
        except KafkaError:
            return
        for shard in shards:
            for (_, index), value in shard.offsets.of("g").items():
                assert value.offset >= self._committed.get(index, 0), f"the group went back in partition {index}"
                self._committed[index] = value.offset

    def finish(self) -> None:
        """Without faults everything ends."""
        self.has_faults = False
        self.files.cut_after = None
        self.files.heal()
        while self._late:
            self._guarded(self.arrive_late)
        self._guarded(self.speed_up)
        self.clients = list({client.number: client for client in self.clients}.values())  # the last one of each id
        for _ in range(FINAL_STEPS):
            if all(client.is_done for client in self.clients):
                break
            self.run_client()
            self.deliver()
            self.end_work()
            self.node.time.advance(5)
            self.check()
        assert all(client.is_done for client in self.clients), "a client hangs"
        for _ in range(200):
            self.end_work()
            self.node.time.advance(100)
            self.check()
        for replica in self.node.services.partitions:
            assert replica.last_stable_offset == replica.log.end_offset, f"{replica} has an open transaction"
        for shard in self.node.services.groups.shards():
            assert shard.offsets.pending == {}
        self._check_copies()

    def _check_copies(self) -> None:
        copies = [self.read_all(out, READ_COMMITTED) for out in range(PARTITIONS)]
        numbers = [client.number for client in self.clients]  # of a copier also that of a partition
        everything = [(index, number) for index in sorted(numbers) for number in range(RECORDS)]
        assert sorted(number for copied in copies for number in copied) == everything, "not every record once"
        for copied in copies:
            for index in numbers:
                mine = [number for number in copied if number[0] == index]
                assert mine == sorted(mine), "not in order"
        for reader in self.readers:
            read = reader.read.copy()
            if reader.isolation_level == READ_COMMITTED:
                assert read == copies[reader.out][: len(read)], "a consumer has read something else"
            else:
                assert read == self.read_all(reader.out, READ_UNCOMMITTED)[: len(read)]

    def read_all(self, out: int, isolation_level: int) -> list[tuple[int, int]]:
        """What a new consumer reads: (partition of `in`, number)."""
        reader = Reader(out, isolation_level)
        offset = -1
        while reader.offset > offset:
            offset = reader.offset
            self.read(reader)
            while reader.is_waiting:
                self.end_work()
                self.node.time.advance()
                self.deliver()
        return reader.read


def run(seed: int, **settings: str) -> World:
    """One history."""
    world = World(seed, **settings)
    for _ in range(STEPS):
        world.step()
    world.finish()
    return world


if __name__ == "__main__":
    run(int(sys.argv[1]))
