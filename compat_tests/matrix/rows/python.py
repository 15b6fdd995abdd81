"""Clients written in Python."""

from __future__ import annotations

from typing import Final

from compat_tests.matrix.client import Client

ROWS: Final[tuple[Client, ...]] = ()
