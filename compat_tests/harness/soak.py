"""Whether this is a long run: `make soak` sets HEADGATE_SOAK."""

from __future__ import annotations

import os
from typing import Final

SOAK: Final = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
