"""JVMs with the newest Java client: each runs a program of java/clients/src, from an archive of their classes.

subprocess.Popen([*command("GroupMember"), "--bootstrap", bootstrap])
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from compat_tests.harness import class_archive, toolchain
from compat_tests.harness.apache_kafka import JARS, TOOL_OPTIONS
from compat_tests.harness.broker import HeadgateBroker
from compat_tests.harness.topics import create_topics

JAR_SET: Final = "clients"
OPTIONS: Final = (*TOOL_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
# Of a history: by then the worker has read, written and committed, in transactions and without
EVENTS: Final = 100
LIMIT_S: Final = 60


def command(main_class: str, jar_set: str = JAR_SET) -> list[str]:
    """What runs a program, with an archive for the newest client; the end of the test where it or Java is not here."""
    programs = toolchain.compiled(JAR_SET, toolchain.jars(JAR_SET))
    archive = class_archive.options(JAR_SET, work, Path(programs), JARS / JAR_SET) if jar_set == JAR_SET else ()
    return with_options(archive, main_class, os.pathsep.join((programs, toolchain.jars(jar_set))))


def with_options(options: Iterable[str], main_class: str, classes: str) -> list[str]:
    java = toolchain.program("java", "install a JDK, version 17 or newer")
    return [java, *OPTIONS, *options, "-cp", classes, main_class]


def work(option: str, scratch: Path) -> None:
    """A client reads and writes for a moment, with a broker of its own."""
    broker = HeadgateBroker(scratch / "broker", {"offsets.topic.num.partitions": "1"})
    try:
        broker.start()
        create_topics(broker.bootstrap, {"classes": {}})
        words = (broker.bootstrap, "classes", "1", "0", "1", "10000")
        pipe = subprocess.PIPE
        program = with_options((option, "-Xlog:disable"), "HistoryWorker", toolchain.compiled_java(JAR_SET))
        with subprocess.Popen([*program, *words], stdin=pipe, stdout=pipe) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            list(itertools.islice(worker.stdout, EVENTS))
            worker.stdin.close()
            worker.stdout.read()
            assert worker.wait(LIMIT_S) == 0, f"the worker ended with {worker.returncode}"
    finally:
        broker.kill()
