"""The options of the command that say how values are decoded: set once, before the first visitor.

Only the addresses and paths of the command line are ever used; no record and no visitor names one.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.tools.console.messages.values.protobuf import InvalidDescriptorSet, MessageTypes
from headgate.tools.schema_registry import SchemaError, open_source


class SchemaOptions(NamedTuple):
    """`schemas`: a folder or the address of a registry. `message_types`: those of the descriptor set."""

    schemas: str | None = None
    descriptor_set: str | None = None
    message_types: tuple[str, ...] = ()


_used = SchemaOptions()


def use(schemas: str | None, descriptor_set: str | None) -> None:
    """Set the options of this process. Raises ValueError with a sentence for a folder or a file that is none."""
    global _used  # noqa: PLW0603 - options of the command line
    try:
        if schemas is not None:
            open_source(schemas)
        types = () if descriptor_set is None else tuple(MessageTypes(descriptor_set).names)
    except SchemaError as error:
        raise ValueError(f"--schemas: {error}") from None
    except InvalidDescriptorSet as error:
        raise ValueError(f"--descriptor-set: {error}") from None
    _used = SchemaOptions(schemas, descriptor_set, types)


def current() -> SchemaOptions:
    """The options of this process."""
    return _used
