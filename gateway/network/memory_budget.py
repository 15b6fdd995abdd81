"""The memory that clients' unanswered requests may take, over all connections."""

from collections.abc import Callable

Granted = Callable[[int], None]

SMALL_BYTES = 1 << 20
"""What a request may take before it has to queue: ordinary requests do not wait for those who send large ones."""


class MemoryBudget:
    """Grants large amounts first come first served, and small ones ahead of them.

    As Apache Kafka's memory pool does for `queued.max.request.bytes`, an amount is granted while anything is left,
    whatever its size: so the budget may be exceeded by one frame, and a frame larger than the budget is not stuck for
    ever. Small amounts stop at twice the budget.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: dict[Granted, int] = {}

    def reserve(self, size: int, granted: Granted) -> bool:
        """Take `size` bytes now (True), or later (False): then `granted(size)` is called once they are taken."""
        if self._is_free(size) and (size <= SMALL_BYTES or not self._waiting):
            self.used_bytes += size
            return True
        self._waiting[granted] = size
        return False

    def release(self, size: int) -> None:
        """Give `size` bytes back, and grant what waits for them."""
        self.used_bytes -= size
        while self._waiting:
            granted, wanted = next(iter(self._waiting.items()))
            if not self._is_free(wanted):
                return
            del self._waiting[granted]
            self.used_bytes += wanted
            granted(wanted)

    def forget(self, granted: Granted) -> None:
        """Drop a reservation that was not granted yet."""
        self._waiting.pop(granted, None)

    def _is_free(self, size: int) -> bool:
        return self.used_bytes < (2 * self._limit_bytes if size <= SMALL_BYTES else self._limit_bytes)
