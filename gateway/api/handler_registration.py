"""The registration of handlers: `@handles` names the request, its versions, and the rule of authorization.

An API is added by a module in `gateway.api.handlers`; `load` imports them all.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from headgate.gateway.api.authorization import Rule
from headgate.gateway.api.authorization_rules import broker, unrestricted
from headgate.gateway.api.context import Handler
from headgate.protocol.reading import MAX_ELEMENTS, MAX_ELEMENTS_AT_ONCE
from headgate.protocol.schema import Message

H = TypeVar("H", bound=Handler)


class Range(NamedTuple):
    """A range of versions of one API, both ends included, with one handler.

    `authorize`: the rule that runs before the handler (`gateway.api.authorization`). `is_lasting(response)`: True if an
    equal request from the same viewpoint has the same response, and no effect, until the image changes. Such a response
    is cached (`gateway.api.response_cache`). `stages`: True if the handler may stage appends, which are written
    together with others of its turn (`gateway.replication.write_batcher`). `needs_zookeeper`: only
    with ZooKeeper. `in_steps`: True if the handler answers any number of rows in steps: a request of this API may have
    `MAX_ELEMENTS`, any other only as many as a handler may take at once. `between_brokers`: only on listeners of
    brokers (`gateway.api.authorization.of_brokers`).
    """

    first: int
    last: int
    handler: Handler
    authorize: Rule = unrestricted
    is_lasting: Callable[[Any], bool] | None = None
    stages: bool = False
    needs_zookeeper: bool = False
    in_steps: bool = False
    between_brokers: bool = False

    @property
    def max_elements(self) -> int:
        return MAX_ELEMENTS if self.in_steps else MAX_ELEMENTS_AT_ONCE


class Registration(NamedTuple):
    """One supported API: its ranges of versions, in order and without a gap."""

    request: type[Message]
    ranges: tuple[Range, ...]

    @property
    def served_min(self) -> int:
        return self.ranges[0].first

    @property
    def served_max(self) -> int:
        return self.ranges[-1].last

    def find(self, version: int) -> Range | None:
        return next((served for served in self.ranges if served.first <= version <= served.last), None)


REGISTRATIONS: dict[int, Registration] = {}


def handles(
    request: type[Message],
    versions: str,
    *,
    authorize: Rule,
    is_lasting: Callable[[Any], bool] | None = None,
    stages: bool = False,
    needs_zookeeper: bool = False,
    in_steps: bool = False,
    between_brokers: bool = False,
) -> Callable[[H], H]:
    """Register a handler for `versions` ("0-4", or "3") of a request; see `Range`.

    An API whose old versions need more work has several handlers, so that the newest has no branch for old versions.
    Raises ValueError for a gap between two ranges.
    """
    low, _, high = versions.partition("-")

    def register(handler: H) -> H:
        added = Range(
            int(low),
            int(high or low),
            handler,
            authorize,
            is_lasting,
            stages,
            needs_zookeeper,
            in_steps,
            between_brokers,
        )
        known = REGISTRATIONS.get(request.api_key)
        ranges = sorted((added, *(known.ranges if known else ())))
        for before, after in pairwise(ranges):
            if before.last + 1 != after.first:
                raise ValueError(f"the versions {before.first} to {after.last} of {request.__name__} leave a gap")
        REGISTRATIONS[request.api_key] = Registration(request, tuple(ranges))
        return handler

    return register


def handles_between_brokers(request: type[Message], versions: str, *, in_steps: bool = False) -> Callable[[H], H]:
    """Register a handler of requests that the brokers of a cluster send each other; see `Range`."""
    return handles(
        request,
        versions,
        authorize=broker,
        needs_zookeeper=True,
        in_steps=in_steps,
        between_brokers=True,
    )


@functools.cache
def load() -> dict[int, Registration]:
    """Import every module of `gateway.api.handlers`, once. Returns the table of supported APIs, by API key."""
    handlers = importlib.import_module("headgate.gateway.api.handlers")
    for module in pkgutil.iter_modules(handlers.__path__):
        if not module.ispkg:
            importlib.import_module(f"{handlers.__name__}.{module.name}")
    return REGISTRATIONS


def served(registrations: Mapping[int, Registration], *, has_zookeeper: bool) -> Mapping[int, Registration]:
    if has_zookeeper:
        return registrations
    kept = {}
    for key, one in registrations.items():
        ranges = tuple(each for each in one.ranges if not each.needs_zookeeper)
        if ranges:
            kept[key] = one if len(ranges) == len(one.ranges) else one._replace(ranges=ranges)
    return kept


def versions(registrations: Mapping[int, Registration]) -> dict[int, tuple[int, int]]:
    """The lowest and the highest version of each API, by API key."""
    return {key: (one.served_min, one.served_max) for key, one in registrations.items()}
