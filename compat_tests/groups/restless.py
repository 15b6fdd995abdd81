"""A group whose members come and go all the time, so that it is nearly always in a rebalance: confluent-kafka.

That the broker is gone for a while, or refuses a commit because the member is no longer one, is what this is for. Each
member is a process: librdkafka 2.16 may never end closing a consumer whose group is in a rebalance meanwhile
(`rd_kafka_rebalance_protocol` waits for its own thread), and then holds Python's lock. Such a process, or any other
that says nothing for a while, is killed and counted.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

from compat_tests.groups.restless_member import SESSION_MS
from compat_tests.harness.apache_kafka import ROOT

# What makes a broker let members go that soon, which died while it did not run
SETTINGS = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}
SILENT_S = 10.0
ENDS_WITHIN_S = 60.0


class RestlessGroup:
    """`acknowledged` has, by partition, the highest offset whose commit was answered without an error."""

    def __init__(self, bootstrap: str, name: str, topic: str, assignor: str, members: int) -> None:
        self.name = name
        self.acknowledged: dict[int, int] = {}
        self.commits = 0
        self.left_behind = 0
        self.failure: BaseException | None = None
        self.owned: list[set[int]] = [set() for _ in range(members)]
        self._stays = self._closes = False
        self._lock = threading.Lock()
        self._command = [sys.executable, "-m", "compat_tests.groups.restless_member"]
        self._command += [f"--bootstrap={bootstrap}", f"--group={name}", f"--topic={topic}", f"--assignor={assignor}"]
        self._inputs: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._run, args=[number], daemon=True) for number in range(members)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        try:
            life = 0
            while not self._closes:
                self._be_member(number, f"--seed={number}-{life}")
                life += 1
        except BaseException as failure:  # noqa: BLE001  said by check()
            self.failure = failure

    def _be_member(self, number: int, seed: str) -> None:
        """One process, to its end."""
        pipe = subprocess.PIPE
        with subprocess.Popen([*self._command, seed], stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            with self._lock:
                self._inputs[number] = process.stdin.fileno()
                if self._stays:
                    self._tell_to_stay(number)
            for line in lines(process.stdout.fileno(), SILENT_S):
                if line is None:
                    process.kill()
                    with self._lock:
                        self.left_behind += 1
                    break
                self._note(number, line)
                if self._closes and not process.stdin.closed:
                    process.stdin.close()
            self.owned[number] = set()
            with self._lock:
                del self._inputs[number]
            if process.wait() > 0:
                raise AssertionError(f"a member of {self.name} failed: {process.stderr.read().decode()}")

    def _note(self, number: int, line: bytes) -> None:
        told = json.loads(line)
        self.owned[number] = set(told["owned"])
        committed = {int(partition): offset for partition, offset in told["committed"].items()}
        with self._lock:
            for partition, offset in committed.items():
                self.acknowledged[partition] = max(offset, self.acknowledged.get(partition, 0))
            self.commits += bool(committed)

    def stay(self) -> None:
        """Let nobody leave any more."""
        with self._lock:
            self._stays = True
            for number in self._inputs:
                self._tell_to_stay(number)

    def _tell_to_stay(self, number: int) -> None:
        os.write(self._inputs[number], b"stay\n")

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def is_settled(self, partitions: int) -> bool:
        """Whether each partition has one member, and each member a partition."""
        self.check()
        owned = [set(each) for each in self.owned]
        return all(owned) and Counter(one for each in owned for one in each) == Counter(range(partitions))

    def close(self) -> None:
        self._closes = True
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), f"a member of {self.name} does not end"
        self.check()


def lines(descriptor: int, silent_s: float) -> Iterator[bytes | None]:
    """Whole lines, to the end of the stream; None when it says nothing for so long."""
    rest = b""
    poll = select.poll()  # select() knows descriptors up to 1,024, and other tests open more
    poll.register(descriptor, select.POLLIN)
    while True:
        if not poll.poll(silent_s * 1000):
            yield None
        data = os.read(descriptor, 1 << 16)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
