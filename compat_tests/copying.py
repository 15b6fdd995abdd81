"""Processes of stock clients that copy a topic to another one, exactly once; each can be killed and started again.

A client consumes, produces and commits its offsets in one transaction after the other. After an error it begins anew
from the committed offset of the group. The Java client of 4.4 speaks the new protocol of transactions (KIP-890), that
of 3.9 and confluent-kafka the old one.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

from compat_tests import toolchain
from compat_tests.apache_kafka import JARS, TOOL_OPTIONS

PARTITIONS = 2
TRANSACTION_TIMEOUT_MS = 4_000


def _java(classes: Callable[[], str]) -> Callable[[], list[str]]:
    options = [*TOOL_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return lambda: [toolchain.program("java", "install a JDK"), *options, "-cp", classes(), "Copier"]


def _java_39() -> str:
    """The same classes over the client of Kafka 3.9."""
    own, _, _ = toolchain.compiled_java("clients").partition(":")
    toolchain.jars("broker39")
    return f"{own}:{JARS / 'broker39'}/*"


COMMANDS: Mapping[str, Callable[[], list[str]]] = {
    "confluent-kafka": lambda: [sys.executable, "-W", "ignore", "-m", "compat_tests.confluent_copier"],
    "java-4.4": _java(lambda: toolchain.compiled_java("clients")),
    "java-3.9": _java(_java_39),
}


class Copier:
    """One client, and what it said."""

    def __init__(self, client: str, bootstrap: str, source: str, target: str) -> None:
        self.client = client
        self.source = source
        self.target = target
        self.transactions = 0
        self.beginnings: list[str] = []
        """Why it began anew."""
        self._command = [*COMMANDS[client](), bootstrap, source, target, str(TRANSACTION_TIMEOUT_MS)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,))
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "committed":
                self.transactions += 1
            else:
                self.beginnings.append(rest)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def check(self) -> None:
        """Whether it still runs: nothing ends it but `kill`."""
        code = self._process.poll()
        assert code is None, f"{self.client} has ended by itself with {code}"
