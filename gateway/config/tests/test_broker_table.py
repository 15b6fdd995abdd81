"""The table says of every setting whether it does anything; the program's text says whether that is true."""

import re
from pathlib import Path

import pytest

import headgate.gateway
from headgate.gateway.config import broker_table, catalogue
from headgate.gateway.config.definition import Effect

# Read by the configuration itself: listeners and directories are looked up in what it makes of them, a
# listener's own settings by their names.
READ_HERE = {
    *broker_table.OF_LISTENERS, "sasl.mechanism.inter.broker.protocol",
    "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
    "security.inter.broker.protocol", "log.dir", "log.dirs", "broker.id", "headgate.metrics.listener",
}  # fmt: skip


def program_text() -> str:
    root = Path(headgate.gateway.__file__).parent
    paths = [path for path in sorted(root.rglob("*.py")) if not {"tests", "config"} & set(path.relative_to(root).parts)]
    return "\n".join(path.read_text() for path in paths)


@pytest.fixture(scope="module")
def attributes() -> set[str]:
    """Every attribute that the program reads of anything called a config."""
    return set(re.findall(r"config\.(\w+)", program_text()))


def is_for_logs(name: str) -> bool:
    return any(name in synonyms for synonyms in catalogue.BROKER_SYNONYMS.values())


def test_what_has_an_effect_is_read_and_what_is_read_has_an_effect(attributes: set[str]) -> None:
    for definition in catalogue.BROKER.values():
        if definition.name in READ_HERE or is_for_logs(definition.name):
            continue
        is_read = definition.name.replace(".", "_") in attributes
        if definition.effect is Effect.FULL:
            assert is_read, f"nothing reads {definition.name}: say in broker_table.PENDING why it has no effect yet"
        else:
            assert not is_read, f"{definition.name} is read: take it out of broker_table.PENDING"
