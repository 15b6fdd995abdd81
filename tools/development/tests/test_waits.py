from __future__ import annotations

import pytest

from headgate.tools.development.waits import findings


def found(path: str, source: str, **allowed: str) -> list[str]:
    exceptions = {f"{path} {name.replace('__', '.')}": reason for name, reason in allowed.items()}
    return [line.split(": ")[0] + " " + line.split(": ")[1] for line in findings({path: source}, exceptions)]


OLD = [
    ("async def f(): ...\n", "gateway/a.py:1 f"),
    ("def f(done: Callable[[int], None]): ...\n", "gateway/a.py:1 f"),
    ("def f(*, on_done: Done): ...\n", "gateway/a.py:1 f"),
    ("class A:\n    callback: Callable[[], None]\n", "gateway/a.py:2 A"),
    ("class CountdownLatch: ...\n", "gateway/a.py:1 CountdownLatch"),
    ("class WaitingFetch: ...\n", "gateway/a.py:1 WaitingFetch"),
    ("Steps = Generator[None, None, T]\n", "gateway/a.py:1 Steps"),
    ("class Steps: ...\n", "gateway/a.py:1 Steps"),
    ("class A:\n    def __init__(self):\n        self._is_busy = self.b = False\n", "gateway/a.py:3 A._is_busy"),
]


@pytest.mark.parametrize("source, place", OLD)
def test_each_older_way_to_wait_is_found(source: str, place: str) -> None:
    assert found("gateway/a.py", source) == [place]


@pytest.mark.parametrize(
    "source",
    [
        "import trio\nasync def f(): ...\n",
        "def f(resume: Callable[[int], None]): ...\n",
        "def f(done: str, finished: int | None): ...\n",
        "def call_after(delay_ms: float, callback: Callable[[], None]): ...\n",
        "from headgate.protocol.steps import Steps\ndef f() -> Steps[int]: ...\n",
        "class A:\n    def __init__(self):\n        self.is_closed = False\n",
    ],
)
def test_the_one_way_the_edges_and_plain_values_are_free(source: str) -> None:
    assert found("gateway/a.py", source) == []


def test_only_the_broker_and_what_it_imports_is_checked() -> None:
    for path in ("tools/a.py", "spark/a.py", "gateway/tests/a.py", "gateway/conftest.py"):
        assert found(path, "async def f(): ...\n") == []
    assert found("protocol/steps.py", "Steps = Generator[None, None, T]\n") == []


def test_an_exception_is_named_and_needed() -> None:
    source = "class A:\n    def __init__(self):\n        self._is_busy = False\n"
    assert found("gateway/a.py", source, A___is_busy="a reason") == []
    (unneeded,) = found("gateway/a.py", "a = 1\n", f="a reason")
    assert unneeded.startswith("gateway/a.py f no older way to wait")
