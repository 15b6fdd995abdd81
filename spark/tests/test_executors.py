"""What a task does on an executor; the cluster itself is in compat_tests/spark/test_places.py."""

from __future__ import annotations

import socket
import sys

import pytest

from headgate.spark.executors import ExecutorReport, cause, probe


@pytest.mark.sockets
def test_a_task_dials_and_tells_versions() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        open_address = f"127.0.0.1:{listening.getsockname()[1]}"
        closed = open_address
        listening.listen()
        found = ExecutorReport(*probe([open_address], ["numpy", "no-such-package"], 3.0))
    assert found.errors == {open_address: None}
    assert found.python == sys.executable
    assert found.versions["no-such-package"] is None
    assert found.versions["numpy"]
    refused = ExecutorReport(*probe([closed, "no-such-host.invalid:1"], [], 3.0))
    assert all(refused.errors.values())


def test_the_cause_is_the_last_one() -> None:
    trace = "An error occurred\n\tat a\nCaused by: x\n\tat b\nCaused by: IOException: no /python\n\t... 20 more"
    assert cause(trace) == "IOException: no /python"
    assert cause("late\n\tat a") == "late"
    assert cause("") == "no reason was given"
