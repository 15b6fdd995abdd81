from __future__ import annotations

import pytest

from headgate.tools.doctor.check_result import NOTE, OK
from headgate.tools.doctor.host.clock import check_time, is_synchronised


@pytest.mark.parametrize("synchronised, state", [(True, OK), (None, OK), (False, NOTE)])
def test_the_clock(synchronised: bool | None, state: str) -> None:
    row = check_time(synchronised, "CET")
    assert row.state == state
    assert "time zone CET" in row.found


def test_the_kernel_tells() -> None:
    assert is_synchronised() in {True, False, None}
