"""The row `transaction-load`: the time and memory of loading 100,000 transactional ids after a restart."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.generator import Transactions, run_load
from headgate.tools.bench.requests import transaction_frames
from headgate.tools.bench.requests.client import BenchError, Reader, exchange
from headgate.tools.bench.rows.coordinators.coordinator_load import (
    LOADING,
    CoordinatorLoadResult,
    one_of_each,
    until_loaded,
)
from headgate.tools.bench.rows.coordinators.transactions import wait_until_coordinated
from headgate.tools.bench.rows.idle import raise_file_limit

TRANSACTIONAL_IDS: Final = 100_000
_AT_ONCE: Final = 500
_OTHER_FILES: Final = 500


def transaction_load(
    launcher: Launcher, directory: Path, generators: Path, transactional_ids: int = TRANSACTIONAL_IDS
) -> CoordinatorLoadResult:
    """Give every transactional id a producer, stop the broker, start it again, ask for every id."""
    raise_file_limit(_AT_ONCE + _OTHER_FILES)
    names = [f"load-{number}" for number in range(transactional_ids)]
    broker = launcher.start(directory)
    try:
        wait_until_coordinated(broker.client, one_of_each(names))
        for first in range(0, transactional_ids, _AT_ONCE):
            _initialize(broker, generators, names[first : first + _AT_ONCE])
    finally:
        broker.stop()
    broker = launcher.start_again(directory)
    try:
        return until_loaded(broker, names, lambda connection, name: _is_there(broker, connection, name))
    finally:
        broker.stop()


def _initialize(broker: Broker, generators: Path, names: Sequence[str]) -> None:
    path = generators / "transaction-load.requests"
    transaction_frames.write_requests(path, map(transaction_frames.init_producer_id, names))
    try:
        run_load(generators, Transactions(path, len(names)), broker.port)
    finally:
        path.unlink()


def _is_there(broker: Broker, connection: socket.socket, name: str) -> bool:
    error, state = state_of(exchange(connection, transaction_frames.describe_transactions([name])))
    if error and error not in LOADING:
        raise BenchError(f"{broker.name}: error code {error} for {name}")
    if not error and state != "Empty":
        raise BenchError(f"{broker.name} has {name} in state {state}, and it has no transaction")
    return not error


def state_of(answer: bytes) -> tuple[int, str | None]:
    """Error code and state of the one transactional id in an answer to DescribeTransactions."""
    reader = Reader(answer[4:], flexible=True)
    reader.number("i")  # throttle time
    reader.count()
    error = reader.number("h")
    reader.string()
    return error, reader.string()
