"""Record batches: producers write them, the log stores them, consumers read them."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
