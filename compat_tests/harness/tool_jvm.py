"""Kafka's command-line tools without a JVM for each: the program in java/broker/src runs one after another.

    tool_output(TOPICS, "--bootstrap-server", bootstrap, "--list")     # what the tool printed

Each process of the tests has one JVM for each jar set, from the first use to its own end.
"""

from __future__ import annotations

import atexit
import base64
import os
import select
import subprocess
from typing import NamedTuple

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import JARS, LOGGING, TOOL_OPTIONS, KafkaFailed, logging_option

LIMIT_S = 60


class Said(NamedTuple):
    """What a tool ended with and wrote."""

    status: int
    output: str
    errors: str


class ToolJvm:
    """A JVM for the tools of a jar set: a folder of build/jars."""

    def __init__(self, jar_set: str) -> None:
        self.jar_set = jar_set
        self._process: subprocess.Popen[str] | None = None

    def run(self, main_class: str, *arguments: str, timeout_s: float = LIMIT_S) -> Said:
        """Run a tool to its end, whatever that is. Raises KafkaFailed if it has no end within the time."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join((main_class, *arguments)) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            process.kill()
            self.close()
            raise KafkaFailed(f"{main_class} was not done after {timeout_s} s")
        answer = process.stdout.readline()
        if not answer:
            raise KafkaFailed(f"the JVM ended with {self.close()} in the middle of {main_class}")
        status, output, errors = answer.rstrip("\n").split("\t")
        # A tool of an old Kafka ends its JVM, which then has the status
        return Said(int(status or self.close()), *(base64.b64decode(text).decode() for text in (output, errors)))

    def close(self) -> int:
        """Close the JVM's input, at which it ends by itself; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            pass
        return process.returncode

    def _start(self) -> subprocess.Popen[str]:
        java = toolchain.program("java", "install a JDK, version 17 or newer")
        logging = [logging_option(name, JARS, "warn") for name in LOGGING]
        classes = os.pathsep.join(
            (toolchain.compiled("broker", toolchain.jars("broker")), toolchain.jars(self.jar_set))
        )
        command = [java, *TOOL_OPTIONS, *logging, "-cp", classes, "Tools"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


_JVMS: dict[str, ToolJvm] = {}


def tool_output(main_class: str, *arguments: str, jar_set: str = "broker") -> str:
    """Run one of Kafka's tools to its end and return its standard output.

    Raises KafkaFailed with both outputs when the tool ends with an error, or not within a minute.
    """
    if jar_set not in _JVMS:
        _JVMS[jar_set] = ToolJvm(jar_set)
        atexit.register(_JVMS[jar_set].close)
    status, output, errors = _JVMS[jar_set].run(main_class, *arguments)
    if status != 0:
        raise KafkaFailed(f"{main_class} ended with {status}\n{output}\n{errors}")
    return output
