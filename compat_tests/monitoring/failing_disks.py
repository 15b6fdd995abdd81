"""A broker whose disks fail in turn: one fails syncs, one is gone for a while, and one does not answer for ten seconds.

Faults of the disk are those of `disk_faults.c`, a library between the broker and the system; the directory that is gone
is moved away, as by an unmounted disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from compat_tests.harness import toolchain
from compat_tests.harness.broker import HTTP, HeadgateBroker
from compat_tests.harness.steady import produce_request, record_batch
from compat_tests.harness.topics import create_topics
from compat_tests.harness.wire import connect, receive_frame
from compat_tests.monitoring.readings import Readings

NAME: Final = "disks"
TOPIC: Final = "stored"
PARTITIONS: Final = 6
SETTINGS: Final = {
    HTTP: "http://127.0.0.1:0",
    "log.flush.interval.messages": "1",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}
HANG, SYNC = "hang", "sync"
"""The switches of the library."""


class BrokerWithFaultyDisks(HeadgateBroker):
    """Log directories `a`, `gone` and `faulty`; the last one has the faults of `switches`."""

    def __init__(self, directory: Path) -> None:
        self.gone, self.faulty, self.switches = (directory / name for name in ("gone", "faulty", "switches"))
        directories = f"{directory}/a,{self.gone},{self.faulty}"
        super().__init__(directory, {**SETTINGS, "log.dirs": directories})
        self.switches.mkdir()
        self.library = directory / "disk_faults.so"
        compiler = toolchain.program("cc", "install a C compiler")
        source = Path(__file__).with_name("disk_faults.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)

    def environment(self) -> dict[str, str]:
        faults = {"HEADGATE_FAULTS": str(self.switches), "HEADGATE_FAULTY": str(self.faulty)}
        return {**os.environ, "LD_PRELOAD": str(self.library), **faults}

    def switch(self, name: str, *, is_on: bool) -> None:
        if is_on:
            (self.switches / name).touch()
        else:
            (self.switches / name).unlink()


def produce(broker: HeadgateBroker) -> None:
    """A record to each partition; some are refused."""
    with connect(broker.bootstrap) as stream:
        stream.sendall(produce_request(TOPIC, PARTITIONS, record_batch(b"kept")))
        receive_frame(stream)


def scenario(directory: Path) -> Readings:
    """Everything, and the readings."""
    readings, broker = Readings(), BrokerWithFaultyDisks(directory)

    def until(family: str, *, is_above: bool) -> None:
        readings.until(NAME, broker, family, below=None if is_above else 1)

    broker.start()
    try:
        create_topics(broker.bootstrap, {TOPIC: {}}, PARTITIONS)
        produce(broker)
        readings.read(NAME, broker)
        broker.switch(SYNC, is_on=True)
        produce(broker)
        until("headgate_disk_unsynced_logs", is_above=True)
        broker.switch(SYNC, is_on=False)
        until("headgate_disk_unsynced_logs", is_above=False)

        broker.switch(HANG, is_on=True)
        away = broker.gone.with_suffix(".away")
        broker.gone.rename(away)
        produce(broker)  # a checkpoint is due, which is the first write to a file by its name
        until("headgate_disk_offline_directories", is_above=True)
        until("headgate_worker_running", is_above=True)
        shutil.rmtree(broker.gone, ignore_errors=True)
        away.rename(broker.gone)
        until("headgate_disk_offline_directories", is_above=False)
        until("headgate_disk_hung_directories", is_above=True)
        broker.switch(HANG, is_on=False)
        until("headgate_disk_hung_directories", is_above=False)
    finally:
        for switch in broker.switches.iterdir():
            switch.unlink()
        broker.stop()
    return readings
