from __future__ import annotations

from typing import Any

import pytest

from headgate.spark.source.available_now import run


class Writer:
    """A DataStreamWriter whose query takes one batch a run, as Spark 4.1 does with a Python source."""

    def __init__(self, *batches: tuple[object, object], fails_at: int | None = None) -> None:
        self.left, self.fails_at = list(batches), fails_at
        self.stopped = 0
        self.recentProgress: list[dict[str, Any]] = []

    def trigger(self, *, availableNow: bool) -> Writer:  # noqa: N803 - Spark's name
        assert availableNow
        return self

    def start(self) -> Writer:
        return self

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        if self.stopped == self.fails_at:
            raise RuntimeError("the query failed")
        taken = self.left[:1]
        del self.left[:1]
        self.recentProgress = [{"sources": [{"startOffset": first, "endOffset": end}]} for first, end in taken]

    def stop(self) -> None:
        self.stopped += 1


def test_runs_end_when_nothing_is_left() -> None:
    heard: list[object] = []
    writer = Writer((None, 5), (5, 10), (10, 12))
    assert run(writer, heard.append) == 3
    assert (len(heard), writer.stopped) == (3, 4)


def test_a_batch_without_new_offsets_ends_the_runs() -> None:
    assert run(Writer((None, 5), (5, 5), (5, 9))) == 1


def test_a_run_that_fails_is_stopped() -> None:
    writer = Writer((None, 5), (5, 10), fails_at=1)
    with pytest.raises(RuntimeError, match="the query failed"):
        run(writer)
    assert writer.stopped == 2
