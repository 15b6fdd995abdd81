"""`headgate service unit | socket`: print a unit file of systemd that fits the settings of a broker.

Exit codes: 0 done, 2 called wrongly or wrong settings.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.runtime.log_output import print_failure
from headgate.gateway.service import unit_files
from headgate.gateway.service.unit_files import Service

MISUSED = 2
DEFAULT_NAME = "headgate"


def main(arguments: Sequence[str]) -> int:
    """Run `headgate service <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        service = _service(options)
        if options.kind == "unit":
            text = unit_files.service_unit(service, has_socket=options.socket)
        else:
            text = unit_files.socket_unit(service)
    except ConfigError as error:
        for problem in error.problems:
            print_failure(problem)
        return MISUSED
    except ValueError as error:
        print_failure(str(error))
        return MISUSED
    sys.stdout.write(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate service",
        description="Print a unit file of systemd for a broker with these settings (docs/running.md).",
    )
    parser.add_argument(
        "kind", choices=("unit", "socket"), help="the service, or the sockets that outlive its restarts"
    )
    parser.add_argument("properties", metavar="server.properties", help="the settings, as the broker will read them")
    parser.add_argument(
        "--socket", action="store_true", help="of unit: the sockets are those of `headgate service socket`"
    )
    parser.add_argument("--user", default=DEFAULT_NAME, help=f"who runs the broker; default: {DEFAULT_NAME}")
    parser.add_argument("--name", default=DEFAULT_NAME, help=f"the name of the units; default: {DEFAULT_NAME}")
    return parser


def _service(options: argparse.Namespace) -> Service:
    """Raises ConfigError, ValueError."""
    properties = Path(options.properties).absolute()
    config = _config(properties)
    relative = [directory for directory in config.log_directories if not Path(directory).is_absolute()]
    if relative:
        raise ValueError(f"log.dirs={','.join(relative)}: a service needs absolute paths, as in /var/lib/headgate")
    program = _program()
    addresses = [(each.host, each.port) for each in config.listeners]
    addresses += [(each.host, each.port) for each in config.headgate_http_listeners]
    return Service(
        name=options.name,
        user=options.user,
        command=[*program, "serve", str(properties)],
        directories=[PurePosixPath(each) for each in dict.fromkeys(_written(config))],
        addresses=addresses,
        reads=[PurePosixPath(properties), PurePosixPath(program[0]), PurePosixPath(sys.prefix) / "lib"],
    )


def _written(config: BrokerConfig) -> Iterator[str]:
    """The directories that the broker writes to."""
    yield from config.log_directories
    if config.headgate_audit_log is not None:
        yield str(Path(config.headgate_audit_log).absolute().parent)


def _config(properties: Path) -> BrokerConfig:
    """Raises ConfigError."""
    try:
        text = properties.read_text("utf-8")
    except OSError as error:
        raise ConfigError([f"cannot read {properties}: {error.strerror}; name the settings of the broker"]) from None
    except UnicodeDecodeError:
        text = properties.read_text("latin-1")
    return BrokerConfig.load(text, (), str(properties))


def _program() -> list[str]:
    """The command `headgate` of this installation, by its absolute path."""
    called = Path(sys.argv[0])
    if called.name == DEFAULT_NAME and called.is_file() and os.access(called, os.X_OK):
        return [str(called.absolute())]
    beside = Path(sys.prefix) / "bin" / DEFAULT_NAME
    found = str(beside) if beside.is_file() else shutil.which(DEFAULT_NAME)
    return [found] if found else [sys.executable, "-m", "headgate"]
