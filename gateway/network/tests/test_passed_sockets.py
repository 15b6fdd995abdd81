"""Sockets of the service manager: taken by address, refused where no listener has them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from headgate.gateway.config import ConfigError
from headgate.gateway.config.http.http_addresses import HttpAddress
from headgate.gateway.config.listeners import Listener
from headgate.gateway.network.addresses import Addresses, bind, listen
from headgate.gateway.network.passed_sockets import PassedSocket, PassedSockets, is_listening

pytestmark = pytest.mark.sockets


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(opened: ExitStack, host: str = "127.0.0.1", *, is_dual_stack: bool = False) -> socket.socket:
    if ":" in host:
        made = socket.create_server((host, 0), family=socket.AF_INET6, dualstack_ipv6=is_dual_stack)
    else:
        made = socket.create_server((host, 0))
    return opened.enter_context(closing(made))


def port_of(made: socket.socket) -> int:
    port: int = made.getsockname()[1]
    return port


def test_a_listener_takes_the_socket_with_its_address(opened: ExitStack) -> None:
    passed, http = listening(opened), listening(opened)
    listener, address = Listener("A", "127.0.0.1", port_of(passed)), HttpAddress("http", "127.0.0.1", port_of(http))
    sockets = PassedSockets([PassedSocket("http", http), PassedSocket("headgate", passed)])
    addresses = Addresses([listener, Listener("B", "127.0.0.1", 0)], [address], passed=sockets)
    addresses.bind()
    (taken_by, taken), (_, bound) = addresses.sockets
    assert (taken_by, taken) == ("A", passed)
    assert not is_listening(bound)
    assert [each for _, each in addresses.http] == [http]
    addresses.close()


def test_the_socket_keeps_the_backlog_of_its_unit(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = listening(opened)
    refused: list[int] = []
    monkeypatch.setattr(socket.socket, "listen", lambda _, backlog: refused.append(backlog))
    listen(passed, 7)
    assert refused == []
    [bound] = bind("127.0.0.1", 0)
    with closing(bound):
        listen(bound, 7)
    assert refused == [7]


@pytest.mark.parametrize(
    "host, passed_host, is_dual_stack, is_taken",
    [
        ("", "::", True, True),
        ("::", "::", True, True),
        ("0.0.0.0", "::", True, True),
        ("0.0.0.0", "0.0.0.0", False, True),
        ("", "0.0.0.0", False, True),
        ("0.0.0.0", "::", False, False),
        ("127.0.0.1", "0.0.0.0", False, False),
        ("127.0.0.1", "::", True, False),
        ("0:0:0:0:0:0:0:1", "::1", False, True),
        ("localhost", "127.0.0.1", False, True),
    ],
)
def test_hosts_are_compared_as_addresses(
    host: str, passed_host: str, opened: ExitStack, *, is_dual_stack: bool, is_taken: bool
) -> None:
    passed = listening(opened, passed_host, is_dual_stack=is_dual_stack)
    sockets = PassedSockets([PassedSocket("", passed)])
    try:
        bound = bind(host, port_of(passed), sockets)
    except OSError:
        bound = []
    assert (passed in bound) == is_taken
    for each in bound:
        each.close()
    if is_taken:
        sockets.check_all_taken()
    else:
        with pytest.raises(ConfigError, match=r"that are no listener's: \S+:\d+ \(without a name\); add them"):
            sockets.check_all_taken()


def test_a_socket_that_nobody_has_prevents_a_start(opened: ExitStack) -> None:
    passed, other = listening(opened), listening(opened)
    sockets = PassedSockets([PassedSocket("a", passed), PassedSocket("other", other)])
    addresses = Addresses([Listener("A", "127.0.0.1", port_of(passed))], passed=sockets)
    with pytest.raises(ConfigError, match=rf"127.0.0.1:{port_of(other)} \(other\)"):
        addresses.bind()
    assert (passed.fileno(), other.fileno()) == (-1, -1)


PROGRAM = """
import os, socket, sys
from headgate.gateway.config import ConfigError
from headgate.gateway.network.passed_sockets import PassedSockets
os.environ["LISTEN_PID"] = str(os.getpid() if sys.argv[1] == "mine" else 1)
try:
    passed = PassedSockets.of_environment(os.environ, os.getpid())
except ConfigError as error:
    sys.exit(str(error))
print([str(each) for each in passed.left], [os.get_inheritable(3)], sorted(n for n in os.environ if "LISTEN" in n))
"""


def open_passed(made: socket.socket, whose: str = "mine", names: str = ":LISTEN_FDNAMES=here") -> tuple[str, str]:
    """The output and the error of a process that has a socket as its descriptor 3."""
    variables = ["env", "LISTEN_FDS=1", *names.split(":")[1:]]
    script = ["bash", "-c", 'exec 3<&"$0"; exec "$@"', str(made.fileno())]
    command = [*variables, *script, sys.executable, "-c", PROGRAM, whose]
    ended = subprocess.run(command, pass_fds=[made.fileno()], capture_output=True, text=True, check=False, timeout=60)
    return ended.stdout.strip(), ended.stderr.strip()


@pytest.mark.slow
def test_the_environment_names_the_sockets(opened: ExitStack) -> None:
    passed = listening(opened)
    port = port_of(passed)
    assert open_passed(passed) == (f"['127.0.0.1:{port} (here)'] [False] []", "")
    assert open_passed(passed, names="") == (f"['127.0.0.1:{port} (without a name)'] [False] []", "")
    kept = "['LISTEN_FDNAMES', 'LISTEN_FDS', 'LISTEN_PID']"
    assert open_passed(passed, "another's") == (f"[] [True] {kept}", "")


@pytest.mark.slow
def test_other_descriptors_are_refused(opened: ExitStack) -> None:
    for made in (socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(), socket.socket(socket.AF_UNIX)):
        opened.enter_context(closing(made))
        output, error = open_passed(made)
        assert output == ""
        assert "the socket here of the service manager is none that listens for TCP" in error
    with open("/dev/null") as no_socket:  # noqa: PTH123
        assert "the descriptor 3 of the service manager is no socket" in open_passed(no_socket)[1]  # type: ignore[arg-type]
