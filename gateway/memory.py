"""The memory that clients' unfinished requests may take, over all connections."""

from collections.abc import Callable

Granted = Callable[[int], None]


class MemoryBudget:
    """Grants whole frames, first come first served.

    As Apache Kafka's memory pool does for `queued.max.request.bytes`, a frame is granted while anything is left,
    whatever its size: so the budget may be exceeded by one frame, and a frame larger than the budget is not stuck for
    ever.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: dict[Granted, int] = {}

    def reserve(self, size: int, granted: Granted) -> bool:
        """Take `size` bytes now (True), or later (False): then `granted(size)` is called once they are taken."""
        if self._waiting or self.used_bytes >= self._limit_bytes:
            self._waiting[granted] = size
            return False
        self.used_bytes += size
        return True

    def release(self, size: int) -> None:
        """Give `size` bytes back, and grant what waits for them."""
        self.used_bytes -= size
        while self._waiting and self.used_bytes < self._limit_bytes:
            granted = next(iter(self._waiting))
            wanted = self._waiting.pop(granted)
            self.used_bytes += wanted
            granted(wanted)

    def forget(self, granted: Granted) -> None:
        """Drop a reservation that was not granted yet."""
        self._waiting.pop(granted, None)
