"""The settings of the HTTP listeners as they are loaded, with the older names that are read for one release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headgate.gateway.config import catalogue
from headgate.gateway.config.definition import Effect
from headgate.gateway.config.http.http_addresses import (
    HTTP,
    OLD_HTTP,
    OLD_NAMES_NOTE,
    OLD_SETTING,
    SETTING,
    HttpAddress,
)
from headgate.gateway.config.listeners import Listener

if TYPE_CHECKING:
    from headgate.gateway.config.loading import Loaded

_PREFIX = f"{catalogue.LISTENER_PREFIX}{HTTP.lower()}."
_OLD_PREFIX = f"{catalogue.LISTENER_PREFIX}{OLD_HTTP.lower()}."


def names_of(listener: str, opened: Iterable[Listener]) -> tuple[str, ...]:
    """The names of a listener in names of settings, the present one first."""
    if listener == HTTP and all(each.name != OLD_HTTP for each in opened):
        return HTTP, OLD_HTTP
    return (listener,)


def take(loaded: Loaded, addresses: Sequence[HttpAddress], old_addresses: Sequence[HttpAddress]) -> None:
    """Take the addresses of whichever name is given, and check them. Both names are a problem."""
    if OLD_SETTING in loaded.given:
        if SETTING in loaded.given:
            loaded.problem(OLD_SETTING, f"it is the older name of {SETTING}, which is set too; remove it")
            return
        addresses = old_addresses
    loaded.values[SETTING] = addresses
    opened: Sequence[Listener] = loaded.values["listeners"]
    if any(address.has_tls for address in addresses) and any(each.name == HTTP for each in opened):
        loaded.problem(SETTING, f"{_PREFIX} are its settings; give the listener {HTTP} another name")
    _take_old_names(loaded, has_listener=any(each.name == OLD_HTTP for each in opened))


def _take_old_names(loaded: Loaded, *, has_listener: bool) -> None:
    """Note the older names, unless a listener of clients has them."""
    for index, answer in enumerate(loaded.answers):
        is_old = answer.name == OLD_SETTING or (answer.name.startswith(_OLD_PREFIX) and not has_listener)
        if not is_old or answer.effect is not Effect.FULL:
            continue
        loaded.answers[index] = answer._replace(effect=Effect.RENAMED, reason=OLD_NAMES_NOTE)
        new_name = answer.name.replace(_OLD_PREFIX, _PREFIX)
        if new_name != answer.name and new_name in loaded.given:
            loaded.problem(answer.name, f"it is the older name of {new_name}, which is set too; remove it")
