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
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise argparse.ArgumentTypeError(f"{path}: the file is larger than {MAX_FILE_BYTES >> 20} MB")
        properties = {entry.name: entry.value for entry in parse(content.decode())}
        return ClientSecurity.of_properties(properties)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise argparse.ArgumentTypeError(f"{path}: the file cannot be read: {reason}") from None
    except (InvalidClientSecurity, MalformedProperties) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
