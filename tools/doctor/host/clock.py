"""Whether the kernel's clock is synchronised, by adjtimex(2), and the time zone."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Final

from headgate.tools.doctor.check_result import NOTE, OK, CheckResult

_STRUCT_BYTES: Final = 1 << 10
_TIME_ERROR: Final = 5


def is_synchronised() -> bool | None:
    """Whether a time service holds the clock; None if the system has no answer. Nothing is set."""
    if sys.platform != "linux":
        return None
    buffer = ctypes.create_string_buffer(_STRUCT_BYTES)  # `struct timex`, whose modes of 0 read alone
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    return None if state < 0 else state != _TIME_ERROR


def check_time(synchronised: bool | None, zone: str | None = None) -> CheckResult:
    """`zone`: the name of the local time zone; None for that of this process."""
    zone = zone or time.tzname[time.localtime().tm_isdst > 0]
    found = f"time zone {zone}; records and certificates go by UTC"
    if synchronised is False:
        cure = (
            "run chronyd or systemd-timesyncd: clocks of brokers and clients drift apart (in a container: on its host)"
        )
        return CheckResult("time", NOTE, f"the kernel's clock is not synchronised; {found}", cure)
    state = "the kernel's clock is synchronised" if synchronised else "nothing known of the kernel's clock"
    return CheckResult("time", OK, f"{state}; {found}")
