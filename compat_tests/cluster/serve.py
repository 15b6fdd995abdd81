"""`make cluster`: a ZooKeeper and three brokers in the foreground, with their data below build/cluster.

    python -m compat_tests.cluster.serve [--port 9092] [--zookeeper-port 2181] [--override name=value] ...

Ctrl-C stops the brokers in order, then ZooKeeper. The next run continues with the same data.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NoReturn

from compat_tests.harness.apache_kafka import ROOT, KafkaFailed
from compat_tests.harness.broker import CONSOLE, HTTP, HeadgateBroker
from compat_tests.harness.leaders import metadata
from compat_tests.harness.ports import HOST
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper

DATA: Final = ROOT / "build" / "cluster"
IDS: Final = range(3)
# A topic that asks for no factor has one replica in Kafka: here it has three
SETTINGS: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}
# Signals that end the cluster: Ctrl-C, an init system, a terminal that is closed
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cluster until a signal, or until one of its processes ends by itself; the exit status."""
    parser = argparse.ArgumentParser(prog="make cluster", description="A ZooKeeper and three brokers on this machine.")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data (default: build/cluster)")
    parser.add_argument("--port", type=int, default=9092, help="port of broker 0; broker 1 and 2 have the next two")
    parser.add_argument("--zookeeper-port", type=int, default=2181)
    parser.add_argument(
        "--http-port", type=int, default=9644, help="port of metrics and health of broker 0; the others as with --port"
    )
    parser.add_argument("--console-port", type=int, default=9080, help="port of the console, which broker 0 holds")
    parser.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting of the brokers"
    )
    options = parser.parse_args(arguments)
    settings = {**SETTINGS, **dict(override.split("=", 1) for override in options.override)}
    http = [f"http://{HOST}:{options.http_port + number}" for number in IDS]
    page = {CONSOLE: f"http://{HOST}:{options.console_port}", "headgate.console.http": ",".join(http[1:])}
    each = [
        {HTTP: address, **(page if number == 0 else {}), **settings} for number, address in zip(IDS, http, strict=True)
    ]
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        run(options.data, options.port, options.zookeeper_port, each)
    except KeyboardInterrupt:
        return 0
    except (KafkaFailed, OSError, AssertionError) as failure:
        print(f"make cluster: {failure}", file=sys.stderr)
    return 1


def interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def run(data: Path, port: int, zookeeper_port: int, settings: Sequence[Mapping[str, str]]) -> None:
    """Start everything, print how to reach it, wait; whatever happens, stop what was started.

    `settings`: those of each broker.
    """
    with ExitStack() as stack:
        zookeeper = new_zookeeper(data / "zookeeper", zookeeper_port)
        stack.enter_context(zookeeper)
        brokers = [
            new_broker(data, number, port + number, zookeeper.connect, each)
            for number, each in zip(IDS, settings, strict=True)
        ]
        for broker in reversed(brokers):
            stack.callback(broker.stop)
        stack.callback(announce_stop)
        for broker in brokers:
            broker.start()
        until(lambda: all(map(knows_all, brokers)), "each broker to know the others")
        print(f"ZooKeeper on {zookeeper.connect}, process {zookeeper.process.pid if zookeeper.process else 0}")
        for number, broker in zip(IDS, brokers, strict=True):
            ways = f"broker {number} on {broker.bootstrap}, HTTP at {broker.http()}"
            print(f"{ways}, process {broker.pid}, log {broker.errors}")
        print(f"console at {settings[0][CONSOLE] or 'no address'}")
        print(f"bootstrap.servers={','.join(broker.bootstrap for broker in brokers)}", flush=True)
        wait_for_end(zookeeper, brokers)


def new_zookeeper(directory: Path, port: int) -> ZooKeeper:
    directory.mkdir(parents=True, exist_ok=True)
    zookeeper = ZooKeeper(directory=directory, port=port)
    zookeeper.process_group = 0
    return zookeeper


def new_broker(data: Path, number: int, port: int, connect: str, settings: Mapping[str, str]) -> HeadgateBroker:
    wanted = {"broker.id": str(number), "zookeeper.connect": connect, **settings}
    broker = HeadgateBroker(data / f"broker-{number}", wanted, port=port)
    broker.process_group = 0
    return broker


def knows_all(broker: HeadgateBroker) -> bool:
    return metadata(broker.bootstrap).brokers == set(IDS)


def wait_for_end(zookeeper: ZooKeeper, brokers: Sequence[HeadgateBroker]) -> None:
    """Wait until a process ends by itself, and say which."""
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    names = {broker.pid: f"broker {number}, see {broker.errors}" for number, broker in zip(IDS, brokers, strict=True)}
    if ended is not None:
        print(f"{names.get(ended.si_pid, f'ZooKeeper, see {zookeeper.output}')}: the process has ended", flush=True)


def announce_stop() -> None:
    """From here on signals change nothing: the stop is under way."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    print("stopping the brokers and ZooKeeper", flush=True)


if __name__ == "__main__":
    sys.exit(main())
