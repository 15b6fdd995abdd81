"""A broker as a child process of a program: `Headgate()`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import IO

from headgate.gateway.app.ready_line import READY, http_endpoints_of
from headgate.gateway.runtime.own_program import command_of

_SHOWN_LOG_LINES = 40


class HeadgateError(Exception):
    """The broker did not start or stop; the text includes the end of its log."""


class ChildProcess:
    """A broker as a child process. It stops when this process closes the pipe to its standard input, or dies."""

    def __init__(self) -> None:
        self.pid = 0
        self.http_endpoints: Sequence[str] = ()
        self._process: subprocess.Popen[str] | None = None
        self._log_file: IO[bytes] | None = None
        self._past_log = ""

    def start(self, overrides: Mapping[str, str], deadline_s: float) -> Sequence[str]:
        """Start with these settings. Returns the endpoints. Raises HeadgateError."""
        arguments = [f"--override={name}={value}" for name, value in overrides.items()]
        if self._log_file is None:
            self._log_file = tempfile.TemporaryFile()  # noqa: SIM115 - stays open until `discard`
        self._process = process = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
            command_of("serve", "--exit-with-parent", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            text=True,
            start_new_session=True,  # Ctrl-C is for the program, which then stops the broker
        )
        self.pid = process.pid
        try:
            return self._wait_until_ready(process, deadline_s)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[str], deadline_s: float) -> Sequence[str]:
        lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        try:
            line = lines.get(timeout=deadline_s)
        except Empty:
            raise HeadgateError(
                f"the broker was not ready within {deadline_s:g} s: waited for the line {READY.strip()!r} on its"
                f" standard output{self._shown_log()}"
            ) from None
        if not line.startswith(READY):
            code = process.wait(deadline_s)
            raise HeadgateError(f"the broker ended with code {code} before it was ready{self._shown_log()}")
        self.http_endpoints = http_endpoints_of(line)
        return line.removeprefix(READY).split(" ", 1)[0].split(",")

    def stop(self, deadline_s: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            if self.is_running():
                process.send_signal(signal.SIGTERM)
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise HeadgateError(
                f"the broker (process {process.pid}) did not stop within {deadline_s:g} s after SIGTERM, and was killed"
                f"{self._shown_log()}"
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Stop at once, without any further write."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def discard(self) -> None:
        """Stop the broker, and ignore errors."""
        self.kill()
        self._past_log, file, self._log_file = self.log(), self._log_file, None
        if file is not None:
            file.close()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        if self._log_file is None:
            return self._past_log
        descriptor = self._log_file.fileno()  # the child shares the position of this file, so `pread` must not move it
        return self._past_log + os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def _shown_log(self) -> str:
        lines = self.log().splitlines()
        left_out = "...\n" if len(lines) > _SHOWN_LOG_LINES else ""
        return f"; it wrote:\n{left_out}" + "\n".join(lines[-_SHOWN_LOG_LINES:]) if lines else "; it wrote nothing"


def _pump(stdout: IO[str] | None, lines: SimpleQueue[str]) -> None:
    """Pass on all lines, so that the child never waits for us; then an empty line at the end."""
    assert stdout is not None
    with contextlib.suppress(ValueError, OSError):  # the pipe was closed meanwhile
        for line in stdout:
            lines.put(line)
    lines.put("")
