"""The memory budgets of requests, over all connections: for their bytes, and for the elements of large ones."""

from collections.abc import Callable

Granted = Callable[[int], None]

SMALL_BYTES = 1 << 20
"""A larger request has to queue for memory; smaller, ordinary requests do not wait for clients that send large ones."""


class MemoryBudget:
    """Grants large amounts in the order of their requests, and small amounts ahead of them.

    As in Apache Kafka's memory pool for `queued.max.request.bytes`, an amount of any size is granted while any memory
    is left. So one frame may exceed the budget, and a frame larger than the budget does not wait for ever. Small
    amounts are granted up to twice the budget.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: dict[Granted, int] = {}

    def reserve(self, size: int, granted: Granted) -> bool:
        """Reserve `size` bytes. True: reserved now. False: reserved later, and then `granted(size)` is called."""
        if self._is_free(size) and (size <= SMALL_BYTES or not self._waiting):
            self.used_bytes += size
            return True
        self._waiting[granted] = size
        return False

    def release(self, size: int) -> None:
        """Return `size` bytes, and grant the reservations that wait for memory."""
        self.used_bytes -= size
        while self._waiting:
            granted, wanted = next(iter(self._waiting.items()))
            if not self._is_free(wanted):
                return
            del self._waiting[granted]
            self.used_bytes += wanted
            granted(wanted)

    def forget(self, granted: Granted) -> None:
        """Drop a reservation that is not granted yet."""
        self._waiting.pop(granted, None)

    def _is_free(self, size: int) -> bool:
        return self.used_bytes < (2 * self._limit_bytes if size <= SMALL_BYTES else self._limit_bytes)
