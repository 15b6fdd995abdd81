"""The replies of many shards to one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.gateway.runtime.tasks import PAUSE, Task, gather, is_task
from headgate.protocol.errors import KafkaError, without_frames
from headgate.protocol.steps import FEW_ITEMS


def gather_replies(keys: Sequence[str], ask: Callable[[str], Any], assemble: Callable[[list[Any]], Any]) -> Any:
    """Make one response of the replies to many keys, in order: `assemble(replies)`, or a task that waits for replies.

    `ask(key)` returns a reply, or a task that waits for it. A failed key has a KafkaError as its reply, and stops no
    other key. Many keys are asked in steps.
    """
    if len(keys) > FEW_ITEMS:
        return _gather(keys, ask, assemble)
    replies = [reply_of(ask, key) for key in keys]
    return _await(replies, assemble) if any(map(is_task, replies)) else assemble(replies)


def _gather(keys: Sequence[str], ask: Callable[[str], Any], assemble: Callable[[list[Any]], Any]) -> Task[Any]:
    replies = []
    for key in keys:
        replies.append(reply_of(ask, key))
        yield PAUSE
    return (yield from _await(replies, assemble))


def _await(replies: list[Any], assemble: Callable[[list[Any]], Any]) -> Task[Any]:
    missing = {number: caught(reply) for number, reply in enumerate(replies) if is_task(reply)}
    if missing:
        for number, (reply,) in zip(missing, (yield from gather(missing.values(), len(missing))), strict=True):
            replies[number] = reply
    outcome = assemble(replies)
    return (yield from outcome) if is_task(outcome) else outcome


def caught(task: Task[Any]) -> Task[tuple[Any]]:
    """The reply, or the error, in a tuple: a task that returns an exception would fail."""
    try:
        return ((yield from task),)
    except KafkaError as error:
        return (without_frames(error),)


def reply_of(ask: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, or the KafkaError that the call raised."""
    try:
        return ask(*arguments)
    except KafkaError as error:
        return without_frames(error)
