"""Records whose reader finds the broker restarted while it sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Sent

PIECE = 100


def restarting(records: Sequence[Sent], broker: Broker) -> Iterator[Sent]:
    """A third as fast as the client takes them; a third slowly, while the broker restarts; the rest when it is back."""
    first, last = len(records) // 3, 2 * len(records) // 3
    yield from records[:first]
    failures: list[BaseException] = []
    thread = threading.Thread(target=guarded, args=(broker, failures))
    thread.start()
    for index in range(first, last):
        if index % PIECE == 0 and thread.is_alive():
            time.sleep(0.02)
        yield records[index]
    thread.join()
    if failures:
        raise failures[0]
    yield from records[last:]


def guarded(broker: Broker, failures: list[BaseException]) -> None:
    try:
        broker.restart()
    except BaseException as failure:  # noqa: BLE001 - raised again by the thread that waits
        failures.append(failure)
