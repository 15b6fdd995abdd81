"""The replies of many shards to one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headgate.gateway.runtime.tasks import PAUSE, Outcome, Task, gather, is_task, value_of
from headgate.protocol.errors import KafkaError, without_frames
from headgate.protocol.steps import FEW_ITEMS

R = TypeVar("R")
A = TypeVar("A")


def gather_replies(
    keys: Sequence[str], ask: Callable[[str], Outcome[R]], assemble: Callable[[list[R | KafkaError]], Outcome[A]]
) -> Outcome[A]:
    """Make one response of the replies to many keys, in order: `assemble(replies)`, or a task that waits for replies.

    `ask(key)` returns a reply, or a task that waits for it. A failed key has a KafkaError as its reply, and stops no
    other key. Many keys are asked in steps.
    """
    if len(keys) > FEW_ITEMS:
        return _gather(keys, ask, assemble)
    replies: list[Any] = [reply_of(ask, key) for key in keys]
    return _await(replies, assemble) if any(map(is_task, replies)) else assemble(replies)


def _gather(
    keys: Sequence[str], ask: Callable[[str], Outcome[R]], assemble: Callable[[list[R | KafkaError]], Outcome[A]]
) -> Task[A]:
    replies = []
    for key in keys:
        replies.append(reply_of(ask, key))
        yield PAUSE
    return (yield from _await(replies, assemble))


def _await(replies: list[Any], assemble: Callable[[list[R | KafkaError]], Outcome[A]]) -> Task[A]:
    missing = {number: caught(reply) for number, reply in enumerate(replies) if is_task(reply)}
    if missing:
        for number, (reply,) in zip(missing, (yield from gather(missing.values(), len(missing))), strict=True):
            replies[number] = reply
    return (yield from value_of(assemble(replies)))


def caught(task: Task[R]) -> Task[tuple[R | KafkaError]]:
    """The reply, or the error, in a tuple: a task that returns an exception would fail."""
    try:
        return ((yield from task),)
    except KafkaError as error:
        return (without_frames(error),)


def reply_of(ask: Callable[..., R], *arguments: Any) -> R | KafkaError:
    """The result of a call, or the KafkaError that the call raised."""
    try:
        return ask(*arguments)
    except KafkaError as error:
        return without_frames(error)
