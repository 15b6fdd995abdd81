"""All rows: a module for each kind of client, the oldest of a family first."""

from __future__ import annotations

from typing import Final

from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import go, jvm, librdkafka, node, python

ROWS: Final[tuple[Client, ...]] = (*jvm.ROWS, *python.ROWS, *librdkafka.ROWS, *go.ROWS, *node.ROWS)
# Of each family the first
OLDEST: Final = tuple({row.family: row for row in reversed(ROWS)}.values())
