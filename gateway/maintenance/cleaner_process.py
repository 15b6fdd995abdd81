"""Where compaction is computed: in a process of its own, or in a thread that leaves Python's lock to the loop.

To look at records keeps Python busy for seconds. A thread that does so has the lock half of the time, which every
client feels; a process has a core of its own, if there is one, and yields to the broker if there is not. It is started
when there is something to compact, told one step after another by lines of JSON on its standard input, and ended when
there is nothing more. It only writes files that are named `.cleaned`, and only while the broker lives: it dies with
it, and does nothing that it is not told.

`docs/compaction.md` has what either does to clients. The thread is for where no process can be had.
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
from headgate.storage.cleanup.compaction.job import Collected, Damaged, Job, Rewritten
from headgate.storage.cleanup.compaction.work import Compaction
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")
Done = Callable[[Any], None]
"""Called on the loop, with a result or with what was raised: OSError, Damaged, or anything that was not expected."""

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from headgate.gateway.maintenance.cleaner_process import main; main()"
)
# The broker is the one that clients wait for.
_NICENESS = 10
_POLL_S = 0.2
# A pause for the disk's sake is made of these: whoever is to stop meanwhile looks in between.
_LONGEST_PAUSE_S = 0.1


class WorkerFailed(Exception):
    """The process ended, or something went wrong in it that nobody expected."""


class Worker(Protocol):
    """What computes one compaction at a time. Of its steps one runs at a time."""

    def collect(self, job: Job, bytes_per_second: float, done: Done) -> None:
        """`Compaction.collect`: `done` gets a Collected."""

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, done: Done) -> None:
        """`Compaction.rewrite` of the last job: `done` gets a Rewritten."""

    def close(self) -> None:
        """Stop at once, in the middle of a step too."""


def best_worker(scheduler: Scheduler, pool: Pool) -> Worker:
    """A process, if the files are those of this machine and there can be one."""
    if type(pool.files) is Files and os.name == "posix" and sys.executable:
        return ProcessWorker(scheduler)
    return ThreadWorker(scheduler, pool)


class ThreadWorker:
    """In a thread of this process, in slices."""

    def __init__(self, scheduler: Scheduler, pool: Pool) -> None:
        self._scheduler = scheduler
        self._pool = Pool(pool.files)  # the broker's is not for threads
        self._work: Compaction | None = None

    def collect(self, job: Job, bytes_per_second: float, done: Done) -> None:
        work = self._work = Compaction(self._pool, job)
        self._scheduler.in_slices(paced(work.collect(), work, bytes_per_second), done)

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, done: Done) -> None:
        assert self._work is not None
        self._scheduler.in_slices(paced(self._work.rewrite(bases), self._work, bytes_per_second), done)

    def close(self) -> None:
        self._work = None


class ProcessWorker:
    """In a child process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._process: subprocess.Popen[bytes] | None = None
        self._is_asked = self._is_closed = False

    def collect(self, job: Job, bytes_per_second: float, done: Done) -> None:
        request = {"job": dataclasses.asdict(job), "bytes_per_second": bytes_per_second}
        self._ask(request, lambda answer: Collected(*answer), done)

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, done: Done) -> None:
        request = {"rewrite": bases, "bytes_per_second": bytes_per_second}
        self._ask(request, _rewritten, done)

    def _ask(self, request: dict[str, Any], read: Callable[[Any], Any], done: Done) -> None:
        def answered(result: Any) -> None:
            self._is_asked = False
            done(result)

        self._is_asked = True
        self._scheduler.in_thread(partial(self._exchange, request, read), answered)

    def _exchange(self, request: dict[str, Any], read: Callable[[Any], Any]) -> Any:
        """Ask, and wait for the answer: in a thread, which does nothing meanwhile but wait."""
        if self._is_over:
            raise StoppedError("compaction was stopped")
        process = self._process = self._process or _start()
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
            raise WorkerFailed(f"the process that compacts ended by itself, with code {process.returncode}")
        return _read_answer(answer, read)

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._scheduler.is_over

    def close(self) -> None:
        self._is_closed = True
        process = self._process
        if process is not None:
            if self._is_asked:  # the thread that waits sees the end, and does the rest
                process.kill()
            else:
                self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
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


def _read_answer(answer: dict[str, Any], read: Callable[[Any], Any]) -> Any:
    if "done" in answer:
        return read(answer["done"])
    if "errno" in answer:
        raise OSError(answer["errno"], answer["problem"])
    raise Damaged(answer["problem"]) if "damaged" in answer else WorkerFailed(answer["problem"])


def paced(
    steps: Steps[T],
    work: Compaction,
    bytes_per_second: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[None, None, T]:
    """The same steps with pauses, so that no more is read and written a second."""
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
    """Do what the lines of standard input say, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this one
    os.nice(_NICENESS)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    pool, work = Pool(Files()), None
    while True:
        request = json.loads(requests.get())
        if "job" in request:
            work = None  # its table goes before there is another one
            work = Compaction(pool, Job.from_values(request["job"]))
        assert work is not None
        print(json.dumps(_answer(work, request)), flush=True)  # noqa: T201  all that stdout is for


def _listen(requests: SimpleQueue[bytes]) -> None:
    """Hand on what is asked; end at once when the broker is gone, by whatever death, in the middle of a step too."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _answer(work: Compaction, request: dict[str, Any]) -> dict[str, Any]:
    steps: Steps[Any] = work.rewrite(request["rewrite"]) if "rewrite" in request else work.collect()
    try:
        return {"done": finish(paced(steps, work, request["bytes_per_second"]))}
    except OSError as error:
        return {"errno": error.errno or errno.EIO, "problem": f"{error.strerror}: {error.filename}"}
    except Damaged as error:
        return {"damaged": True, "problem": str(error)}
    except (KafkaError, MemoryError, ValueError, ArithmeticError, LookupError) as error:
        return {"problem": repr(error)}
