"""The addresses of the HTTP listeners: `http://host:port` on the loopback interface, `https://host:port` anywhere."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.gateway.config import listeners
from headgate.gateway.config.listeners import ListenerProblem

SETTING: Final = "headgate.http.listeners"
OLD_SETTING: Final = "headgate.metrics.listener"
CONSOLE_SETTING: Final = "headgate.console.listeners"
HTTP: Final = "HTTP"
"""The name of the HTTP listeners over TLS, for their settings: listener.name.http.ssl.*"""
OLD_HTTP: Final = "METRICS"
"""The name from before, for one release: listener.name.metrics.ssl.*"""
OLD_NAMES_NOTE: Final = (
    f"{OLD_SETTING} and listener.name.metrics.* are older names of {SETTING} and listener.name.http.*, and will be"
    " gone with the next release; write the new ones"
)
_MOST: Final = 16


class HttpAddress(NamedTuple):
    """One address to serve HTTP at; port 0 means a free port."""

    scheme: str
    host: str
    port: int

    @property
    def has_tls(self) -> bool:
        """Whether peers need TLS, and are asked who they are."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse(text: str) -> tuple[HttpAddress, ...]:
    """The addresses of a list; none for an empty text. Raises ListenerProblem."""
    addresses = tuple(_parse_one(part.strip()) for part in text.split(",") if part.strip())
    if len(addresses) > _MOST:
        raise ListenerProblem(f"there are {len(addresses)} addresses; the most are {_MOST}")
    for number, (_, host, port) in enumerate(addresses):
        if port and (host, port) in ((each.host, each.port) for each in addresses[:number]):
            raise ListenerProblem(f"{host}:{port} is listed twice; list each address once")
    return addresses


def _parse_one(text: str) -> HttpAddress:
    try:
        name, host, port = listeners.parse(text.rstrip("/"))[0]
    except (ListenerProblem, IndexError):
        name, host, port = "", "", 0
    if name not in {"HTTP", "HTTPS"}:
        raise ListenerProblem(f"{text!r} is not http://host:port or https://host:port, as in http://127.0.0.1:9644")
    address = HttpAddress(name.lower(), host, port)
    if not (address.has_tls or listeners.is_loopback(host)):
        raise ListenerProblem(
            f"{text!r} is reached from other machines, so it needs TLS and users: write https://, with"
            " listener.name.http.ssl.keystore.location, or http://127.0.0.1"
        )
    return address


def parse_console(text: str) -> tuple[HttpAddress, ...]:
    """The addresses of the console, on the loopback interface; none for an empty text. Raises ListenerProblem."""
    addresses = parse(text)
    for address in addresses:
        if address.has_tls:
            raise ListenerProblem(
                f"{str(address)!r} is no address that a broker holds for its console: write http://127.0.0.1:9080; a"
                " tunnel, or a proxy with TLS and a login of its own, brings other machines there"
            )
    return addresses


def parse_old(text: str) -> tuple[HttpAddress, ...]:
    """The address of `headgate.metrics.listener`; none for an empty text. Raises ListenerProblem."""
    address = listeners.parse_metrics_listener(text)
    if address is None:
        return ()
    return (HttpAddress("http" if listeners.is_loopback(address[0]) else "https", *address),)
