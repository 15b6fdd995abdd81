"""The state of a transactional id after a restart, as the bench asks for it."""

import struct

from headgate.tools.bench.rows.coordinators.transaction_load import state_of


def test_an_answer_has_an_error_or_a_state() -> None:
    def answer(error: int, state: bytes) -> bytes:
        return bytes(4) + b"\x00" + bytes(4) + b"\x02" + struct.pack(">h", error) + b"\x03id" + state + b"\x00"

    assert state_of(answer(0, b"\x06Empty")) == (0, "Empty")
    assert state_of(answer(14, b"\x01")) == (14, "")
