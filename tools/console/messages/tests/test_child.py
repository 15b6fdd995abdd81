"""The parent's side, with real processes: what they say, and how they end."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.tools.client.client import ClientError
from headgate.tools.console.messages import child
from headgate.tools.console.messages.process import WorkOrder
from headgate.tools.console.parameters import BadParameter

pytestmark = pytest.mark.sockets

ORDER: WorkOrder = {
    "work": "search",
    "bootstrap": "127.0.0.1:1",
    "properties": {},
    "parameters": [("topic", "t")],
    "schemas": None,
    "descriptor_set": None,
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a program of a test the child's."""

    def write(text: str) -> None:
        (tmp_path / "scripted_child.py").write_text(textwrap.dedent(text))
        monkeypatch.setattr(child, "MODULE", "scripted_child")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


def test_the_real_process_names_what_fails() -> None:
    with pytest.raises(ClientError, match=r"no broker answers at 127\.0\.0\.1:1"):
        list(child.read_events(ORDER))
    with pytest.raises(BadParameter, match="limit=x"):
        list(child.read_events({**ORDER, "parameters": [("topic", "t"), ("limit", "x")]}))


def test_events_come_as_they_are_written(program: Callable[[str], None]) -> None:
    program("""
        import sys
        sys.stdin.readline()
        sys.stdout.write('{"a": 1}\\n{"b"')
        sys.stdout.flush()
        sys.stdout.write(': 2}\\n')
    """)
    events: list[Any] = [event for event in child.read_events(ORDER) if event != {"event": "waiting"}]
    assert events == [{"a": 1}, {"b": 2}]


def test_a_crash_is_a_sentence(program: Callable[[str], None]) -> None:
    program("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ClientError, match="SIGSEGV"):
        list(child.read_events(ORDER))
    program("raise RuntimeError('a fault')")
    with pytest.raises(ClientError, match="a fault"):
        list(child.read_events(ORDER))


def test_a_silent_process_is_killed(program: Callable[[str], None]) -> None:
    program("import time; time.sleep(600)")
    events = child.read_events(ORDER, silent_s=0.7)
    assert next(events) == {"event": "waiting"}
    with pytest.raises(ClientError, match=r"longer than 0\.7 s"):
        list(events)


def test_a_visitor_who_leaves_ends_the_process(program: Callable[[str], None], tmp_path: Path) -> None:
    program(f"""
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print('{{"a": 1}}', flush=True)
        time.sleep(600)
    """)
    events = child.read_events(ORDER)
    while next(events) != {"a": 1}:
        pass
    pid = (tmp_path / "pid").read_text()
    assert Path(f"/proc/{pid}").exists()
    events.close()  # type: ignore[attr-defined]
    assert not Path(f"/proc/{pid}").exists()


def test_a_few_processes_run_at_a_time(program: Callable[[str], None]) -> None:
    program("import time; print('{}', flush=True); time.sleep(600)")
    running = [child.read_events(ORDER) for _ in range(child.MOST_PROCESSES)]
    for events in running:
        next(events)
    with pytest.raises(ClientError, match="6 searches run"):
        next(child.read_events(ORDER))
    running.pop().close()  # type: ignore[attr-defined]
    running.append(child.read_events(ORDER))
    next(running[-1])
    for events in running:
        events.close()  # type: ignore[attr-defined]


def test_memory_is_bounded(program: Callable[[str], None]) -> None:
    program("""
        import sys
        from headgate.tools.console.messages import process
        process.limit_process()
        try:
            bytearray(process.MEMORY_BYTES)
        except MemoryError:
            print('{"is_bounded": true}')
    """)
    assert {"is_bounded": True} in list(child.read_events(ORDER))
