"""What the member programs in Python share: their command line, commands as lines, events as lines of JSON.

    {"owned": [0, 2]}              all that is assigned to it, whenever that has changed
    {"partition": 0, "offset": 7}  a record that it was given
    {"error": "..."}               what the client reports to the application
    {"committed": ""}              told to `commit`, it committed what it was given of what it owns; or else why not

At the end of its input it closes its client, and ends. It never commits by itself. The programs in Go
(go/lines/member.go), Java and JavaScript do the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterable, Mapping

SERVER = "server"


class Lines:
    """The options of a member, its input and its output."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        for name in ("bootstrap", "topic", "group", "assignor"):
            parser.add_argument(f"--{name}", required=True)
        parser.add_argument("--instance")
        parser.add_argument("--reset", choices=["earliest", "latest", "none"], default="earliest")
        parser.add_argument("--session-ms", type=int, required=True)
        self.options = parser.parse_args()
        self.is_closing = threading.Event()
        self._commits = threading.Semaphore(0)
        self._owned: frozenset[int] = frozenset()
        self._next: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            assert line == "commit\n", line
            self._commits.release()
        self.is_closing.set()

    def is_to_commit(self) -> bool:
        return self._commits.acquire(blocking=False)

    def owned(self, partitions: Iterable[int]) -> None:
        """Say what is assigned, if that is new."""
        owned = frozenset(partitions)
        if owned != self._owned:
            self._owned = owned
            self._next = {partition: offset for partition, offset in self._next.items() if partition in owned}
            self._say({"owned": sorted(owned)})

    def record(self, partition: int, offset: int) -> None:
        self._next[partition] = offset + 1
        self._say({"partition": partition, "offset": offset})

    def positions(self) -> Mapping[int, int]:
        """What is to be committed: of each partition the offset after the last record."""
        return self._next

    def committed(self, failure: object = "") -> None:
        self._say({"committed": str(failure)})

    def failed(self, failure: object) -> None:
        self._say({"error": str(failure)})

    def _say(self, event: dict[str, object]) -> None:
        print(json.dumps(event), flush=True)
