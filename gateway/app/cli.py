"""The command `headgate`: a table of commands; only the called one is imported.

Exit codes: 0 success, 1 failure, 2 wrong arguments or wrong configuration.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate import __version__

if TYPE_CHECKING:
    import argparse

    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.network.addresses import Addresses
    from headgate.gateway.service.service_manager import ServiceManager

FAILED, MISUSED = 1, 2


class Command(NamedTuple):
    """`target` is 'module:function'. The function takes the arguments after the command, and returns an exit code."""

    target: str
    summary: str


COMMANDS = {
    "serve": Command(
        "headgate.gateway.app.cli:serve", "run a broker: headgate serve [server.properties] [--override name=value]..."
    ),
    "topics": Command("headgate.tools.topics:main", "list, create, describe and delete topics"),
    "groups": Command(
        "headgate.tools.groups.command:main", "consumer groups: members, lag, offsets to reset, export and import"
    ),
    "acls": Command(
        "headgate.tools.acls.command:main", "access rules: list, add, remove, the rule that decides, missing rules"
    ),
    "users": Command("headgate.gateway.app.cli:users", "users who log in by SCRAM: list, add, remove"),
    "quotas": Command("headgate.tools.quotas:main", "quotas of users, client ids and addresses: list, set, remove"),
    "tokens": Command("headgate.tools.tokens:main", "delegation tokens: create, list, renew, expire"),
    "txn": Command("headgate.tools.txn.command:main", "transactions: list, describe, find hanging ones, abort one"),
    "census": Command("headgate.tools.census.command:main", "which clients a release of Kafka would break, and where"),
    "log": Command(
        "headgate.tools.log.command:main", "files of a data directory: list, dump, verify, repair; no broker needed"
    ),
    "spark": Command(
        "headgate.spark.command:main", "Spark over topics: jars, options, loads, positions; `headgate spark help`"
    ),
    "console": Command("headgate.tools.console.command:main", "serve a page about a cluster; `headgate[console]`"),
    "health": Command("headgate.tools.health:main", "whether a broker is alive, started or ready, for probes"),
    "metrics": Command("headgate.tools.metrics:main", "read the metrics of a broker, as Prometheus does"),
    "dashboard": Command("headgate.tools.monitoring.dashboard:main", "print a dashboard for Grafana"),
    "alerts": Command("headgate.tools.monitoring.alerts:main", "print alerting rules for Prometheus"),
    "metadata": Command(
        "headgate.gateway.app.cli:metadata", "carry a stopped broker's metadata to ZooKeeper, or back to its own log"
    ),
    "service": Command("headgate.gateway.service.command:main", "print unit files of systemd for a broker"),
    "config": Command("headgate.gateway.app.cli:config", "say of every line of a server.properties what it does here"),
    "doctor": Command(
        "headgate.gateway.app.cli:doctor", "find what keeps a broker of any Kafka from being used, each with its cure"
    ),
    "bundle": Command(
        "headgate.gateway.app.cli:bundle", "one archive for a report: settings masked, metrics, log, limits"
    ),
}

# The parent process is gone: the broker has this time to stop.
_STOPS_WITHIN_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in the arguments. Returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "help"
    if name in ("help", "--help", "-h"):
        print(_help())
        return 0 if given else MISUSED
    if name in ("--version", "version"):
        print(f"headgate {__version__}")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        return _fail(f"there is no command {name!r}{_nearest(name)}; `headgate help` lists them", MISUSED)
    if sys.stdout is None:  # the caller closed it, and wants the exit code only
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - stays open until the process ends
    try:
        code = _function(command.target)(given[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of our output is gone, as with `head`: no further output
        _drop_output()
        return FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        _drop_output()
        return _fail(f"cannot write to the standard output: {error.strerror}", FAILED)
    return code


def _drop_output() -> None:
    """Discard the rest of the output; otherwise Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _function(target: str) -> Callable[[Sequence[str]], int]:
    module, _, function = target.partition(":")
    found: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return found


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "headgate: a Kafka-wire-compatible broker",
            "",
            "usage: headgate <command> [arguments]; `headgate <command> --help` tells more",
            "",
            *lines,
            f"  {'help'.ljust(width)}  this",
            f"  {'--version'.ljust(width)}  the version",
        ]
    )


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f", the nearest is {near[0]}" if near else ""


def _fail(sentence: str, code: int) -> int:
    from headgate.gateway.runtime.log_output import print_failure

    print_failure(sentence)
    return code


# ------------------------------------------------------------------------------------------------------ serve, config


def serve(arguments: Sequence[str]) -> int:
    """`headgate serve`: run a broker until SIGTERM or SIGINT."""
    parser = _parser(
        "serve", "Run a broker. Settings have Kafka's names; `headgate config` says what a file does here."
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument(
        "--adopt", action="store_true", help="take over the log.dirs of an Apache Kafka that was stopped"
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="stop when standard input is closed")
    options = parser.parse_args(arguments)
    if likely_format(options) == "json":
        _configure_log(options.log_level, None)  # for the refusal of a setting
    settings = _of_directory(options, _load(options))
    if settings is None:
        return MISUSED
    _configure_log(options.log_level, settings)
    if options.exit_with_parent:
        _exit_with_parent()
    service = None if options.exit_with_parent else _service_manager(settings)
    return _run(settings, service, is_adopting=options.adopt)


def _service_manager(settings: BrokerConfig) -> ServiceManager | None:
    """The service manager that has started this process; None if a person has, or another program."""
    if "NOTIFY_SOCKET" not in os.environ:
        return None
    from headgate.gateway.runtime.clock import SystemClock
    from headgate.gateway.service.service_manager import ServiceManager

    service = ServiceManager.take(os.environ, os.getpid(), SystemClock())
    if service is not None:
        session_ms, connection_ms = settings.zookeeper_session_timeout_ms, settings.zookeeper_connection_timeout_ms
        # Also until the registration of this broker's last run has ended
        service.starting(0 if settings.zookeeper_connect is None else session_ms + (connection_ms or session_ms))
    return service


def _addresses(settings: BrokerConfig) -> Addresses:
    """The addresses of the settings; sockets that the service manager has opened are among them. Raises ConfigError."""
    from headgate.gateway.network.addresses import Addresses
    from headgate.gateway.network.passed_sockets import PassedSockets

    return Addresses.of(settings, PassedSockets.of_environment(os.environ, os.getpid()))


def _configure_log(level: str, config: BrokerConfig | None) -> None:
    """`config`: None before it is read, and JSON is wanted."""
    from headgate.gateway.runtime import log_output

    log_output.configure(level, form=log_output.JSON if config is None else config.headgate_log_format)


def likely_format(options: argparse.Namespace) -> str:
    """The format of log lines as far as it is known before the settings are checked: the last one that is given."""
    from headgate.gateway.runtime.log_output import FORMAT_SETTING, TEXT

    lines = [*_readable_lines(options.properties), *options.override]
    given = [line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == FORMAT_SETTING]
    return given[-1] if given else TEXT


def _readable_lines(path: str | None) -> list[str]:
    from headgate.gateway.config import ConfigError

    try:
        return _read(path).splitlines()
    except ConfigError:  # `_load` reports the error
        return []


def config(arguments: Sequence[str]) -> int:
    """`headgate config`: what every given setting does here, without starting a broker."""
    settings = _load(_parser("config", "Say of every setting that is given what it does here.").parse_args(arguments))
    if settings is None:
        return MISUSED
    for answer in settings.answers:
        print(answer)
    if not settings.answers:
        print("headgate: nothing is set, so that everything has its default", file=sys.stderr)
    return 0


def metadata(arguments: Sequence[str]) -> int:
    """`headgate metadata to-zookeeper | to-embedded`: move the metadata of a stopped broker; dry run first."""
    parser = _parser(
        "metadata",
        "Carry a stopped broker's metadata to ZooKeeper, or back; docs/migration.md says when.",
        ("to-zookeeper", "to-embedded"),
    )
    parser.add_argument("--execute", action="store_true", help="do it; the default is a dry run")
    options = parser.parse_args(arguments)
    settings = _of_directory(options, _load(options))
    if settings is None:
        return MISUSED
    if settings.zookeeper_connect is None:
        return _fail("metadata needs zookeeper.connect: set it in the file, or by --override", MISUSED)
    try:
        lines = _transfer(settings, options.direction, execute=options.execute)
    except Exception as error:  # noqa: BLE001 - an unexplained error is raised again
        return _explain(error, settings, "the metadata were not carried")
    for line in lines:
        print(line)
    if not options.execute:
        print("headgate: this was a dry run, nothing is changed; --execute does it", file=sys.stderr)
    return 0


def users(arguments: Sequence[str]) -> int:
    """`headgate users`: the tool, with the way to a store whose brokers do not run."""
    tool = import_module("headgate.tools.users")  # gateway and tools know nothing of each other; a command is both
    code: int = tool.main(arguments, _store_users)
    return code


def doctor(arguments: Sequence[str]) -> int:
    """`headgate doctor`: the tool, with the checks of settings and of ZooKeeper that the broker itself makes."""
    return _inspecting_tool("headgate.tools.doctor.command", arguments)


def bundle(arguments: Sequence[str]) -> int:
    """`headgate bundle`: as `doctor`."""
    return _inspecting_tool("headgate.tools.bundle.command", arguments)


def _inspecting_tool(module: str, arguments: Sequence[str]) -> int:
    tool = import_module(module)
    from headgate.gateway.app.inspection.settings import inspect_settings
    from headgate.gateway.app.inspection.zookeeper import inspect_zookeeper

    code: int = tool.main(arguments, inspect_settings, inspect_zookeeper)
    return code


def _store_users(
    properties: str | None, overrides: Sequence[str], requests: Sequence[Any], is_dry_run: bool
) -> tuple[list[str], list[str]]:
    """Write users to a data directory or to ZooKeeper. Returns lines about the work, and sentences about a failure."""
    from headgate.gateway.app import first_users
    from headgate.gateway.config import BrokerConfig, ConfigError
    from headgate.protocol.errors import KafkaError
    from headgate.storage.errors import StorageError

    try:
        text, source = _read(properties), properties or ""
        settings = BrokerConfig.load(text, overrides, source)
        found = _directory_node_id(settings)
        if found is not None:
            settings = BrokerConfig.load(text, [*overrides, f"node.id={found}"], source)
        return first_users.add(settings, requests, is_dry_run=is_dry_run), []
    except ConfigError as error:
        return [], list(error.problems)
    except (KafkaError, StorageError) as error:
        return [], [f"nothing was written: {error}"]
    except OSError as error:
        return [], [f"nothing was written: {error.filename}: {error.strerror}"]


def _transfer(settings: BrokerConfig, direction: str, *, execute: bool) -> list[str]:
    """Raises StorageError, OSError."""
    from random import Random

    from headgate.gateway.app.composition import connect
    from headgate.gateway.runtime.clock import SystemClock
    from headgate.gateway.zookeeper import metadata_command
    from headgate.storage.files import Files

    clock = SystemClock()
    parts = metadata_command.TransferParts(Files(), Random(), clock.now_ms())
    connection = connect(settings, clock)
    assert connection is not None, "zookeeper.connect is set"
    try:
        run = metadata_command.to_zookeeper if direction == "to-zookeeper" else metadata_command.to_embedded
        return run(settings, connection, parts, execute=execute)
    finally:
        connection.close()


def _parser(command: str, description: str, directions: Sequence[str] = ()) -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(prog=f"headgate {command}", description=description)
    if directions:
        parser.add_argument("direction", choices=directions)
    parser.add_argument(
        "properties", nargs="?", metavar="server.properties", help="a file as Apache Kafka's brokers have it"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="name=value",
        help="a setting that wins over the file; may be repeated",
    )
    return parser


def _load(options: argparse.Namespace) -> BrokerConfig | None:
    """The configuration of the options; None after printing its problems."""
    from headgate.gateway.config import BrokerConfig, ConfigError

    try:
        text = _read(options.properties)
        return BrokerConfig.load(text, options.override, options.properties or "")
    except ConfigError as error:
        for problem in error.problems:
            _fail(problem, MISUSED)
        return None


def _of_directory(options: argparse.Namespace, settings: BrokerConfig | None) -> BrokerConfig | None:
    """The settings, with the node.id of the log directories if none is given."""
    known = None if settings is None else _directory_node_id(settings)
    if known is None:
        return settings
    options.override.append(f"node.id={known}")
    return _load(options)


def _directory_node_id(settings: BrokerConfig) -> int | None:
    """The node.id of the log directories, if the settings name none, and have another one by default."""
    if any(settings.texts(name)[-1] is not None for name in ("node.id", "broker.id")):
        return None
    from headgate.storage.disk import layout
    from headgate.storage.files import Files

    known = layout.node_id(Files(), settings.log_directories)
    return None if known == settings.node_id else known


def _read(path: str | None) -> str:
    """The text of a properties file in UTF-8, otherwise in Latin-1 as Java reads it."""
    from headgate.gateway.config import ConfigError

    if path is None:
        return ""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            [f"cannot read {path}: {error.strerror}; name a file that exists, or none for the defaults"]
        ) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _run(settings: BrokerConfig, service: ServiceManager | None, *, is_adopting: bool = False) -> int:
    import gc
    import logging

    from headgate.gateway.runtime import descriptors

    logger = logging.getLogger("headgate.config")
    for note in settings.notes():
        logger.log(logging.WARNING if note.is_warning else logging.INFO, "%s", note)
    too_few = descriptors.low_limit_warning(descriptors.raise_limit(), settings.max_connections)
    if too_few is not None:
        logger.warning("%s", too_few)
    gc.disable()  # imported modules are no garbage; a search for garbage in them takes a tenth of a start
    from headgate.gateway.app import broker

    gc.enable()
    addresses: Addresses | None = None
    outcome = "did not start"

    def started() -> None:
        nonlocal outcome
        outcome = "stopped"

    try:
        addresses = _addresses(settings)
        if is_adopting:
            _adopt(settings, addresses.bind)
        broker.serve(settings, started, addresses, service)
    except Exception as error:  # noqa: BLE001 - an unexplained error is raised again
        return _explain(error, settings, f"the broker {outcome}")
    finally:
        if addresses is not None:
            addresses.close()
        if service is not None:
            service.close()
    return 0


def _adopt(settings: BrokerConfig, last_check: Callable[[], None]) -> None:
    if settings.zookeeper_connect is not None:
        import logging

        logging.getLogger("headgate.adoption").info(
            "--adopt: ZooKeeper at %s has the metadata of Kafka, which need no adoption; to leave ZooKeeper behind,"
            " remove zookeeper.connect",
            settings.zookeeper_connect,
        )
        return
    from random import Random

    from headgate.gateway.app import adoption
    from headgate.gateway.runtime.clock import SystemClock
    from headgate.storage.files import Files

    adoption.adopt(settings, Files(), Random(), SystemClock().now_ms(), last_check)


def _explain(error: BaseException, settings: BrokerConfig, outcome: str) -> int:
    """Print one sentence for an error that the user can fix; raise any other. Returns the exit code."""
    from headgate.gateway.config import ConfigError
    from headgate.protocol.errors import KafkaError
    from headgate.storage.errors import DirectoryLocked, StorageError

    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, ConfigError):
        for problem in error.problems:
            _fail(problem, MISUSED)
        return MISUSED
    if isinstance(error, DirectoryLocked):
        return _fail(str(error), FAILED)
    if isinstance(error, OSError):
        return _fail(_reason(error, settings, outcome) or f"{outcome}: {error}", FAILED)
    if isinstance(error, KafkaError | StorageError):
        return _fail(f"{outcome}: {error}", FAILED)
    raise error


def _reason(error: OSError, settings: BrokerConfig, outcome: str) -> str | None:
    """The sentence for an error of the system, with advice; None without advice.

    An error of a file has a file name; an error of a listener has none.
    """
    from socket import gaierror

    from headgate.gateway.network.addresses import AddressError

    if error.errno == errno.ENOSPC:
        directories = ",".join(settings.log_directories)
        return f"{outcome}: no space is left in log.dirs={directories}; free some, and start the broker again"
    if error.filename is not None:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
            return None
        advice = "log.dirs has to be a directory that this user can write to"
        return f"cannot use {error.filename}: {error.strerror}; {advice}"
    addresses, setting = ", ".join(f"{one.host}:{one.port}" for one in settings.listeners), "listeners"
    if isinstance(error, AddressError):
        addresses, setting = error.address, error.setting
    refused = {
        errno.EADDRINUSE: f"another process does already; stop it, or set other {setting}",
        errno.EADDRNOTAVAIL: f"this machine has no such address; set other {setting}",
        errno.EACCES: f"this user may not, as usual for ports below 1024; set other {setting}",
    }
    is_unresolved = isinstance(error, gaierror) or isinstance(error.__cause__, gaierror)
    reason = f"{error.strerror}; set other {setting}" if is_unresolved else refused.get(error.errno or 0)
    return reason and f"cannot listen on {addresses}: {reason}"


def _exit_with_parent() -> None:
    """Stop this process when the process at the other end of its standard input closes the pipe or dies.

    A closed pipe is the only sign of every kind of death, SIGKILL included, for every thread, on every platform.
    """
    import signal
    import threading
    import time

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_STOPS_WITHIN_S)
        os._exit(FAILED)

    threading.Thread(target=wait, name="exit with parent", daemon=True).start()
