"""Answers of `/v1/connections.json` of several brokers, the last two of each.

All visitors share them: a broker is asked at most once in `INTERVAL_S`, however many look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

INTERVAL_S: Final = 2.0

Document = Mapping[str, Any]
"""An answer of `/v1/connections.json`."""


class SampledDocument(NamedTuple):
    """An answer of a broker, and the answer before it; None: there was none."""

    document: Document
    before: Document | None


class ConnectionSampler:
    """Reads the connections of brokers, and remembers the last two answers of each. Threads may share it."""

    def __init__(self, read: Callable[[str], Document], clock: Callable[[], float] = time.monotonic) -> None:
        """`read`: the answer of the broker at an address. It may raise: then nothing is remembered."""
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._samples: dict[str, tuple[float, SampledDocument]] = {}

    def sample(self, address: str) -> SampledDocument:
        """The newest answer of the broker at an address. Raises as `read`."""
        with self._lock:
            lock = self._locks.setdefault(address, threading.Lock())
        with lock:
            known = self._samples.get(address)
            now_s = self._clock()
            if known is not None and now_s - known[0] < INTERVAL_S:
                return known[1]
            document = self._read(address)
            sampled = SampledDocument(document, None if known is None else known[1].document)
            self._samples[address] = now_s, sampled
            return sampled
