"""Steps of `transactions_scenario`: a batch or an end that a broker has seen before, or that comes too late.

A history of `HISTORIES` is a line of words. Each history has a partition and a producer of its own:

    7                   Produce a batch of two records with the sequences 7 and 8
    add                 AddPartitionsToTxn
    commit, abort       EndTxn, and a wait for the markers
    init                InitProducerId: the next epoch
    restart             the broker stops in order, and starts again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.gateway.coordinator.transactions.tests.transaction_play import Play, Producer
from headgate.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_BROKER, _SET, _DELETE = 4, 0, 1
_VERIFICATION = "transaction.partition.verification.enable"

HISTORIES = {
    # In the old protocol, one epoch: a later transaction uses a sequence of an earlier one again
    "last": "add 0 2 {end} add 2 4 4 2 commit add 4 6 commit",
    "last-alone": "add 0 2 {end} add 2 commit add 4 commit",
    "first": "add 0 2 {end} add 0 2 4 abort add 4 commit",
    "fifth": "add 0 2 4 6 8 {end} add 0 10 abort add 10 commit",
    "sixth": "add 0 2 4 6 8 10 {end} add 0 12 abort add 12 commit",
    "next": "add 0 2 {end} add 4 2 6 4 commit",
    "gap": "add 0 2 {end} add 6 4 6 commit",
    "overlap": "add 0 2 {end} add 1 4 abort add 3 4 commit",
    "before-add": "add 0 2 {end} 2 add 4 abort add 4 commit",
    "next-before-add": "add 0 2 {end} 4 add 4 commit",
    "gap-before-add": "add 0 2 {end} 6 add 4 commit",
    "nothing-new": "add 0 {end} add 0 {end} add 0 0 {end} add 2 commit",
    "no-batch-before": "add {end} add 4 6 {end} add 4 8 commit",
    # A new epoch begins at sequence 0
    "epoch": "add 0 2 {end} init add 2 0 2 commit",
    "epoch-next": "add 0 2 {end} init add 4 0 commit",
    "epoch-repeated": "add 0 2 {end} add 2 init add 0 2 commit",
    "epoch-fenced": "add 0 2 {end} add 2 4 abort add 4 init add 4 0 2 {end} add 2 4 commit",
}
NEW_HISTORIES = {
    "new-last": "0 2 {end} 2 0 2 {end} 2 commit",
    "new-next": "0 2 {end} 4 0 commit",
    "new-first": "0 2 {end} 0 0 2 commit",
}
RESTARTED = {
    "restart-last": "add 0 2 {end} restart add 2 4 abort add 4 commit",
    "restart-between": "add 0 2 {end} add 2 restart 4 commit",
    "restart-first": "add 0 2 {end} restart add 0 4 abort add 4 commit",
    "restart-next": "add 0 2 {end} restart add 4 commit",
    "restart-open": "add 0 2 {end} add 4 restart 4 2 6 commit",
    "restart-gap": "add 0 2 {end} restart add 6 4 commit",
}
"""Kafka keeps the last batch of each producer across a restart in order, and no verification."""


History = tuple[str, int]
"""Its words, and the version of Produce."""


def repetitions(made: Play) -> None:
    """Sequences of an earlier transaction."""
    histories: dict[str, History] = {}
    for end in ("abort", "commit"):
        histories |= {f"{name}-{end}": (history.format(end=end), 9) for name, history in HISTORIES.items()}
        if made.has_new_protocol:
            histories |= {f"{name}-{end}": (history.format(end=end), 12) for name, history in NEW_HISTORIES.items()}
    for name in ("last", "before-add"):
        histories[f"{name}-11"] = HISTORIES[name].format(end="abort"), 11
    _play(made, histories)


def unverified_repetitions(made: Play) -> None:
    """The same without verification."""
    _configure(made, _SET)
    names = ("last", "gap", "before-add", "next-before-add")
    _play(made, {f"{name}-unverified": (HISTORIES[name].format(end="abort"), 9) for name in names})
    _configure(made, _DELETE)


def _configure(made: Play, operation: int) -> None:
    config = AlterableConfig(_VERIFICATION, operation, "false")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_BROKER, "", [config])])
    (row,) = made.broker.ask(request, 1).responses
    assert not row.error_code, row
    made.broker.pause(500)


def restarted_repetitions(made: Play) -> None:
    """Sequences of an earlier transaction, where the broker restarts between them."""
    ends = ("abort", "commit")
    _play(made, {f"{name}-{end}": (words.format(end=end), 9) for end in ends for name, words in RESTARTED.items()})


def _play(made: Play, histories: dict[str, History]) -> None:
    made.topics(**dict.fromkeys(histories, 1))
    made.unlogged |= histories.keys()
    played = [_steps(made, name, *history) for name, history in histories.items()]
    while played := [steps for steps in played if next(steps, False)]:
        made.restart()


def _steps(made: Play, name: str, words: str, version: int) -> Iterator[bool]:
    """Play a history. Yields where the broker has to restart."""
    one = Producer(made, name)
    is_new = version >= 12
    one.init(version=5 if is_new else 4)
    for number, word in enumerate(words.split(), 1):
        label = f"{number:02} {word}"
        if word == "restart":
            yield True
        elif word == "add":
            one.add(label, {name: [0]})
        elif word == "init":
            one.init(label)
            one.settle()
            one.init(f"{label} again")
        elif word in ("commit", "abort"):
            one.end(label, commit=word == "commit", version=5 if is_new else 3)
        else:
            one.send(label, name, version=version, sequence=int(word))
    made.fetch(f"history {name}", name)
    made.producers(f"history {name}", name)


def repeated_ends(made: Play) -> None:
    """EndTxn 5 with the epoch before the present one, after an end in the old protocol, and after a fence."""
    made.topics(ends=4)
    for index, kind in enumerate(("committed", "aborted", "fenced", "empty")):
        one = Producer(made, f"ended-{kind}")
        one.init()
        one.init("next epoch")
        if kind != "empty":
            one.add("one", {"ends": [index]})
            one.send("one", "ends", index)
        if kind in ("committed", "aborted"):
            one.end(kind, commit=kind == "committed")
        elif kind == "fenced":
            one.init("fences")
            one.settle()
            one.epoch += 1
        holder = one.producer_id, one.epoch
        for commit in (True, False):
            one.adopt(holder[0], holder[1] - 1)
            one.end(f"{'commit' if commit else 'abort'} in the epoch before", commit=commit, version=5)
            one.adopt(holder[0], holder[1] + 1)
            one.end(f"{'commit' if commit else 'abort'} in the epoch behind", commit=commit, version=5)
        one.state("in the end")


REPETITIONS: list[Callable[[Play], None]] = [repeated_ends, repetitions, unverified_repetitions]
