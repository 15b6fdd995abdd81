"""The states of logs in one directory: one state each, and only by the transitions that are allowed."""

from random import Random
from unittest.mock import Mock

import pytest

from headgate.storage.config import LogConfig
from headgate.storage.directory.log_opening import LogOpening
from headgate.storage.directory.log_states import TRANSITIONS, LogPhase, LogStates, LogStateValue
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.recovery.recovery_input import RecoveryInput

KEY = ("t", 0)
WAYS = {
    LogPhase.NONE: [],
    LogPhase.UNOPENED: [LogPhase.UNOPENED],
    LogPhase.OPENING: [LogPhase.UNOPENED, LogPhase.OPENING],
    LogPhase.OPEN: [LogPhase.CREATING, LogPhase.OPEN],
    LogPhase.FAILED: [LogPhase.UNOPENED, LogPhase.OPENING, LogPhase.FAILED],
    LogPhase.CREATING: [LogPhase.CREATING],
}


def record(state: LogPhase) -> LogStateValue:
    match state:
        case LogPhase.OPEN:
            return Mock(spec=Log)
        case LogPhase.FAILED:
            return StorageError("damaged")
        case LogPhase.OPENING:
            return LogOpening(Files(), Mock(spec=RecoveryInput), LogConfig(), Random(0), 0)
    return state


def in_state(state: LogPhase) -> LogStates:
    states = LogStates()
    for step in WAYS[state]:
        states.move(KEY, record(step))
    return states


@pytest.mark.parametrize("before", LogPhase)
@pytest.mark.parametrize("after", LogPhase)
def test_a_partition_takes_only_the_ways_of_the_table(before: LogPhase, after: LogPhase) -> None:
    states = in_state(before)
    if after not in TRANSITIONS[before]:
        with pytest.raises(AssertionError, match=f"t-0 cannot go from {before.name} to {after.name}"):
            states.move(KEY, record(after))
        assert states.state(KEY) is before
        return
    open_log = states.move(KEY, record(after))
    assert (open_log is not None) == (before is LogPhase.OPEN)
    assert states.state(KEY) is after
    assert (len(states), KEY in states) == ((0, False) if after is LogPhase.NONE else (1, True))
