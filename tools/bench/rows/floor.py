"""The floor: the same requests, answered by an epoll loop in C without any broker logic."""

import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from headgate.tools.bench.measuring.brokers import HEADGATE, Broker, free_port
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.row import MetadataRow, Row, Run, run_of

ECHO = "echo"


@dataclass(frozen=True, slots=True)
class FloorRow(Row):
    """Compares Headgate with a server that answers every frame with the same bytes, copied from Headgate's answer."""

    under: MetadataRow = field(default_factory=lambda: MetadataRow("metadata", (), 64, 1))

    def opened(self, target: Target) -> AbstractContextManager[Run]:
        return self.under.opened(target)

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        for target in targets:
            if target.name == HEADGATE:
                return self._beside_echo(target, stack)
        return {}

    def _beside_echo(self, target: Target, stack: ExitStack) -> Mapping[str, Run]:
        topic = stack.enter_context(target.topic(self.under.partitions))
        load = self.under.load(target, topic)
        answer = target.broker.client.answer(frames.metadata(self.under.version, [topic.name]))
        echo = stack.enter_context(echo_beside(target, answer))
        return {each.name: run_of(each, load) for each in (target, echo)}


@contextmanager
def echo_beside(target: Target, answer: bytes) -> Iterator[Target]:
    """The echo server as a target. `answer`: the bytes from the correlation id on."""
    port, path = free_port(), target.scratch_file("echo.answer")
    path.write_bytes(struct.pack(">i", len(answer)) + answer)
    command = [str(target.generators / ECHO), str(port), str(path)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                raise BenchError("the echo server did not start")
            broker = Broker(ECHO, process, port, target.broker.data)
            yield Target(broker, target.generators, target.scratch, {}, gauge=target.gauge)
        finally:
            process.kill()
