"""The messages of all APIs in the registry: those of the product, and those that no part of it reads or writes yet."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from headgate.protocol import messages
from headgate.protocol.registry import APIS, module_name
from headgate.protocol.schema import Message
from headgate.protocol.tests import unserved

UNSERVED = frozenset(module.name for module in pkgutil.iter_modules(unserved.__path__))
"""The names of the modules."""


def request_class(key: int) -> type[Message]:
    """The request class of an API. Raises KeyError."""
    return _declared(key, "Request")


def response_class(key: int) -> type[Message]:
    """The response class of an API. Raises KeyError."""
    return _declared(key, "Response")


@functools.cache
def _declared(key: int, suffix: str) -> type[Message]:
    api = APIS[key].name
    package = unserved if module_name(api) in UNSERVED else messages
    declared: type[Message] = getattr(importlib.import_module(f"{package.__name__}.{module_name(api)}"), api + suffix)
    return declared
