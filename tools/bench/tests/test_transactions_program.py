"""The generator of transactions, against a scripted broker."""

import shutil
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.protocol.records.batch import check_crc, read_header
from headgate.tools.bench.measuring.generator import LoadResult, Transactions, compile_program, run_load
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.transaction_frames import (
    NEW,
    OLD,
    Producer,
    Protocol,
    transactional_batch,
    write_requests,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]

BATCH = transactional_batch([b"value"] * 3)
PRODUCER = Producer("id", TopicPartitions("t", [1, 2], bytes(range(16))), BATCH, group_id="group")
CONCURRENT_TRANSACTIONS, PRODUCER_FENCED = 51, 90


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    compile_program("transactions", directory)
    return directory


@dataclass
class ScriptedBroker:
    """Answers one connection as a coordinator does; `errors`: request number -> error code. Keeps every request."""

    listener: socket.socket
    errors: dict[int, int] = field(default_factory=dict)
    requests: list[tuple[int, bytes]] = field(default_factory=list)
    epoch: int = 4

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as file:
            while size := file.read(4):
                frame = file.read(int.from_bytes(size, "big"))
                key, version, correlation = struct.unpack_from(">hhi", frame)
                connection.sendall(self._framed(correlation, self._answer(key, version, frame)))

    @staticmethod
    def _framed(correlation: int, body: bytes) -> bytes:
        return struct.pack(">ii", len(body) + 4, correlation) + body

    def _answer(self, key: int, version: int, frame: bytes) -> bytes:
        if key == frames.API_VERSIONS:
            return bytes(6)
        error = self.errors.get(len(self.requests), 0)
        self.requests.append((key, frame))
        head = b"\x00" + bytes(4)  # tags of the header, throttle time
        topic = b"\x02\x02t\x03"
        rows = b"".join(struct.pack(">ih", index, error) + b"\x00" for index in (1, 2))
        if key == frames.INIT_PRODUCER_ID:
            return head + struct.pack(">hqh", error, 9, self.epoch) + b"\x00"
        if key == frames.END_TXN and version >= 5:
            self.epoch += not error
            return head + struct.pack(">hqh", error, 9, self.epoch) + b"\x00"
        if key in (frames.END_TXN, frames.ADD_OFFSETS_TO_TXN):
            return head + struct.pack(">h", error) + b"\x00"
        if key == frames.PRODUCE:
            name = bytes(range(16)) if version >= 13 else b"\x02t"
            partition = struct.pack(">hqqq", error, -1 if error else 5, -1, 0) + b"\x01\x00\x00"
            produced = b"".join(struct.pack(">i", index) + partition for index in (1, 2))
            return b"\x00\x02" + name + b"\x03" + produced + b"\x00" + bytes(4) + b"\x00"
        return head + topic + rows + b"\x00\x00"


@contextmanager
def scripted(errors: dict[int, int]) -> Iterator[ScriptedBroker]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = ScriptedBroker(listener, errors)
        thread = threading.Thread(target=broker.serve, daemon=True)
        thread.start()
        yield broker
        thread.join(60)


def run(
    programs: Path, directory: Path, protocol: Protocol, transactions: int, errors: dict[int, int] | None = None
) -> tuple[LoadResult, ScriptedBroker]:
    path = directory / "requests"
    requests = PRODUCER.requests(protocol)
    write_requests(path, requests)
    load = Transactions(path, 1, steps=len(requests) - 1, transactions=transactions)
    with scripted(errors or {}) as broker:
        result = run_load(programs, load, broker.listener.getsockname()[1])
    return result, broker


def batches(broker: ScriptedBroker) -> list[tuple[int, int, int]]:
    """Producer id, epoch and sequence of each produced batch; checks the CRC of each."""
    found = []
    for key, frame in broker.requests:
        start = -1
        while key == frames.PRODUCE and (start := frame.find(BATCH[:8], start + 1)) >= 0:
            if frame[start + 8 : start + 17] != BATCH[8:17]:
                continue
            batch = memoryview(frame)[start : start + len(BATCH)]
            assert check_crc(batch)
            header = read_header(batch)
            found.append((header.producer_id, header.producer_epoch, header.base_sequence))
    return found


def keys(broker: ScriptedBroker) -> Sequence[int]:
    return [key for key, _ in broker.requests]


def test_sequences_go_on_in_the_old_protocol(programs: Path, tmp_path: Path) -> None:
    result, broker = run(programs, tmp_path, OLD, 2)
    assert (result.requests, result.record_bytes) == (2, 4 * len(BATCH))
    assert keys(broker) == [22, *(24, 0, 25, 28, 26) * 2]
    assert batches(broker) == [(9, 4, 0), (9, 4, 0), (9, 4, 3), (9, 4, 3)]
    assert 0 < result.p50_us <= result.transaction_p50_us


def test_each_transaction_of_the_new_protocol_has_an_epoch(programs: Path, tmp_path: Path) -> None:
    _, broker = run(programs, tmp_path, NEW, 2)
    assert keys(broker) == [22, *(0, 28, 26) * 2]
    assert batches(broker) == [(9, 4, 0), (9, 4, 0), (9, 5, 0), (9, 5, 0)]


def test_a_retriable_error_repeats_the_same_request(programs: Path, tmp_path: Path) -> None:
    result, broker = run(programs, tmp_path, NEW, 1, {0: 15, 2: CONCURRENT_TRANSACTIONS})
    assert result.requests == 1
    assert keys(broker) == [22, 22, 0, 0, 28, 26]
    first, second = (frame for key, frame in broker.requests if key == frames.PRODUCE)
    assert first[8:] == second[8:]
    assert result.transaction_p50_us > 20_000


def test_any_other_error_ends_the_run(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=f"EndTxn answer: error code {PRODUCER_FENCED}"):
        run(programs, tmp_path, NEW, 1, {3: PRODUCER_FENCED})


def test_without_steps_producers_get_their_ids(programs: Path, tmp_path: Path) -> None:
    path = tmp_path / "requests"
    write_requests(path, PRODUCER.requests(NEW)[:1])
    with scripted({}) as broker:
        result = run_load(programs, Transactions(path, 1), broker.listener.getsockname()[1])
    assert (result.requests, keys(broker)) == (0, [22])
