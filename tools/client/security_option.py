"""The option `--command-config FILE` of every command that connects to a broker: Kafka's client properties."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from headgate.protocol.properties import MalformedProperties, parse
from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.tools.client.client import PLAINTEXT

MAX_FILE_BYTES: Final = 1 << 20


def add_security_option(
    parser: argparse.ArgumentParser, name: str = "--command-config", dest: str = "security", of: str = "the connection"
) -> None:
    """Add the option; `options.security` is a ClientSecurity."""
    parser.add_argument(
        name,
        dest=dest,
        type=client_security,
        default=PLAINTEXT,
        metavar="file",
        help=f"Kafka's client properties with TLS and login of {of}",
    )


def client_security(path: str) -> ClientSecurity:
    """`type=` of the option."""
    try:
        return read_security(path)
    except InvalidClientSecurity as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_security(path: str) -> ClientSecurity:
    """The security of a file of client properties. Raises InvalidClientSecurity with the path, whatever is wrong."""
    properties = read_properties(path)
    try:
        return ClientSecurity.of_properties(properties)
    except InvalidClientSecurity as error:
        raise InvalidClientSecurity(f"{path}: {error}") from None


def read_properties(path: str) -> dict[str, str]:
    """The properties of a file. Raises InvalidClientSecurity with the path."""
    try:
        return {entry.name: entry.value for entry in parse(_read_text(path))}
    except (InvalidClientSecurity, MalformedProperties) as error:
        raise InvalidClientSecurity(f"{path}: {error}") from None


def _read_text(path: str) -> str:
    """Raises InvalidClientSecurity."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidClientSecurity(f"the file cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidClientSecurity(f"the file is larger than {MAX_FILE_BYTES >> 20} MB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidClientSecurity("the file cannot be read: it is no text in UTF-8") from None
