"""The workers of compaction: a child process, or a thread that yields Python's lock to the loop.

Filtering records keeps Python busy for seconds. A thread would hold the lock half of that time, which every client
feels. A process has a core of its own if there is one, and otherwise yields to the broker by its low priority. The
process starts when a log is due, gets its steps as lines of JSON on its standard input, and ends when no log is due.
The process only writes files named `.cleaned`, only at the broker's request, and ends with the broker.

`docs/compaction.md` has the effect of both on clients. The thread is for platforms without child processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import headgate
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps, finish
from headgate.storage.cleanup.compaction.compaction_job import Collected, Damaged, Job, Rewritten
from headgate.storage.cleanup.compaction.computation import Computation
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from headgate.gateway.maintenance.cleaner_process import main; main()"
)
# Clients wait for the broker, not for this process.
_NICENESS = 10
_POLL_S = 0.2
# A long pause is a series of short ones, so that a stop is noticed in between.
_LONGEST_PAUSE_S = 0.1


class WorkerFailed(Exception):
    """The process ended by itself, or reported an unexpected error."""


class Worker(Protocol):
    """A worker computes one compaction at a time, one step at a time. `bytes_per_second` limits reads and writes."""

    def collect(self, job: Job, bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        """Run `Computation.collect`; `resume` gets a Collected."""

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        """Run `Computation.rewrite` for the last job; `resume` gets a Rewritten."""

    def close(self) -> None:
        """Stop at once, even in the middle of a step."""


def best_worker(scheduler: Scheduler, pool: Pool) -> Worker:
    """A ProcessWorker for real files on POSIX; otherwise a ThreadWorker."""
    if type(pool.files) is Files and os.name == "posix" and sys.executable:
        return ProcessWorker(scheduler)
    return ThreadWorker(scheduler, pool)


class ThreadWorker:
    """A worker in a thread of this process, in slices."""

    def __init__(self, scheduler: Scheduler, pool: Pool) -> None:
        self._scheduler = scheduler
        self._pool = Pool(pool.files)  # only the loop may use the broker's pool
        self._work: Computation | None = None

    def collect(self, job: Job, bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        work = self._work = Computation(self._pool, job)
        self._scheduler.in_slices(paced(work.collect(), work, bytes_per_second), resume)

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        assert self._work is not None
        self._scheduler.in_slices(paced(self._work.rewrite(bases), self._work, bytes_per_second), resume)

    def close(self) -> None:
        self._work = None


class ProcessWorker:
    """A worker in a child process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.process: subprocess.Popen[bytes] | None = None
        self._is_asked = self._is_closed = False

    def collect(self, job: Job, bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        request = {"job": dataclasses.asdict(job), "bytes_per_second": bytes_per_second}
        self._ask(request, lambda answer: Collected(*answer), resume)

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, resume: Callable[[Any], None]) -> None:
        request = {"rewrite": bases, "bytes_per_second": bytes_per_second}
        self._ask(request, _rewritten, resume)

    def _ask(self, request: dict[str, Any], read: Callable[[Any], Any], resume: Callable[[Any], None]) -> None:
        def answered(result: Any) -> None:
            self._is_asked = False
            resume(result)

        self._is_asked = True
        self._scheduler.in_thread(partial(self._exchange, request, read), answered)

    def _exchange(self, request: dict[str, Any], read: Callable[[Any], T]) -> T:
        """Send a request and wait for the answer, in a thread that only waits."""
        if self._is_over:
            raise StoppedError("compaction was stopped")
        process = self.process = self.process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        answer = None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            while not select.select([process.stdout], [], [], _POLL_S)[0]:
                if self._is_over:
                    process.kill()
            answer = json.loads(process.stdout.readline() or "null")
        except (BrokenPipeError, json.JSONDecodeError):
            pass
        if answer is None or self._is_over:
            self._end(process)
        if self._is_over:
            raise StoppedError("compaction was stopped")
        if answer is None:
            raise WorkerFailed(f"the compaction process ended by itself, with code {process.returncode}")
        return _read_answer(answer, read)

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._scheduler.is_over

    def close(self) -> None:
        self._is_closed = True
        process = self.process
        if process is not None:
            if self._is_asked:  # the waiting thread notices the end, and cleans up
                process.kill()
            else:
                self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self.process = None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def _rewritten(answer: Sequence[Any]) -> Rewritten:
    is_changed, sizes, *counts = answer
    return Rewritten(is_changed, tuple(sizes), *counts)


def _start() -> subprocess.Popen[bytes]:
    import subprocess

    root = str(Path(headgate.__file__).resolve().parents[1])
    return subprocess.Popen(  # noqa: S603 - this interpreter, our own program
        [sys.executable, "-I", "-c", _PROGRAM, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _read_answer(answer: dict[str, Any], read: Callable[[Any], T]) -> T:
    if "done" in answer:
        return read(answer["done"])
    if "errno" in answer:
        raise OSError(answer["errno"], answer["problem"])
    raise Damaged(answer["problem"]) if "damaged" in answer else WorkerFailed(answer["problem"])


def paced(
    steps: Steps[T],
    work: Computation,
    bytes_per_second: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[None, None, T]:
    """The same steps with pauses, so that reads and writes stay below `bytes_per_second`."""
    started_s, before = now_s(), work.moved_bytes
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield
        while (ahead_s := (work.moved_bytes - before) / bytes_per_second - (now_s() - started_s)) > 0:
            sleep(min(ahead_s, _LONGEST_PAUSE_S))
            yield


# In the process


def main() -> None:
    """Answer the requests on standard input, one a line, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this process
    os.nice(_NICENESS)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    pool, work = Pool(Files()), None
    while True:
        request = json.loads(requests.get())
        if "job" in request:
            work = None  # frees the old table of keys before the new one needs memory
            work = Computation(pool, Job.from_values(request["job"]))
        assert work is not None
        print(json.dumps(_answer(work, request)), flush=True)  # noqa: T201  stdout carries only answers


def _listen(requests: SimpleQueue[bytes]) -> None:
    """Pass requests on; end the process at once when the broker is gone for any reason, even within a step."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _answer(work: Computation, request: dict[str, Any]) -> dict[str, Any]:
    steps: Steps[Any] = work.rewrite(request["rewrite"]) if "rewrite" in request else work.collect()
    try:
        return {"done": finish(paced(steps, work, request["bytes_per_second"]))}
    except OSError as error:
        return {"errno": error.errno or errno.EIO, "problem": f"{error.strerror}: {error.filename}"}
    except Damaged as error:
        return {"damaged": True, "problem": str(error)}
    except (KafkaError, MemoryError, ValueError, ArithmeticError, LookupError) as error:
        return {"problem": repr(error)}
