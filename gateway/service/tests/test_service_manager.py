"""The service manager: what it hears from a start to a stop, and that a loop that stands still tells nothing."""

import pytest

from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.service.notify_socket import NotifySocket
from headgate.gateway.service.service_manager import BEATS, STEADY_INTERVAL_MS, ServiceManager

WATCHDOG_MS = 6_000


class Heard(NotifySocket):
    """Takes datagrams in place of a service manager, unless it is full."""

    def __init__(self) -> None:
        self.datagrams: list[str] = []
        self.is_full = False

    def send(self, *lines: str) -> bool:
        if not self.is_full:
            self.datagrams.append("\n".join(lines))
        return not self.is_full

    def take_all(self) -> list[str]:
        datagrams, self.datagrams = self.datagrams, []
        return datagrams


class Service:
    """A service manager, its broker's state, and a clock that the test moves."""

    def __init__(self, watchdog_ms: float | None = WATCHDOG_MS) -> None:
        self.clock = ManualClock(0)
        self.scheduler = FakeScheduler(self.clock)
        self.heard = Heard()
        self.manager = ServiceManager(self.heard, watchdog_ms, self.clock)
        self.state = ("opening logs", True)

    def follow(self) -> list[str]:
        self.manager.follow(self.scheduler, lambda: self.state)
        return self.heard.take_all()

    def advance(self, milliseconds: float) -> list[str]:
        self.clock.elapsed_ms += milliseconds
        self.scheduler.run_due()
        return self.heard.take_all()


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_start_extends_its_time_while_the_loop_turns(service: Service) -> None:
    service.manager.starting(18_000)
    assert service.heard.take_all() == ["EXTEND_TIMEOUT_USEC=78000000\nSTATUS=starting"]
    beat = "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=30000000"
    assert service.follow() == [beat + "\nSTATUS=opening logs"]
    assert service.advance(1_000) == [beat], "the same status is not told again"
    service.manager.ready()
    assert service.heard.take_all() == ["READY=1\nSTATUS=opening logs"]
    assert service.advance(1_000) == ["WATCHDOG=1"]


def test_the_status_follows_the_broker(service: Service) -> None:
    service.follow()
    service.manager.ready()
    service.heard.take_all()
    service.state = ("opening logs: 2 of 3\npartitions", True)
    assert service.advance(1_000) == ["WATCHDOG=1\nSTATUS=opening logs: 2 of 3 partitions"]
    service.state = ("serving", False)
    assert service.advance(1_000) == ["WATCHDOG=1\nSTATUS=serving"]
    assert service.advance(WATCHDOG_MS / BEATS - 1) == []
    assert service.advance(1) == ["WATCHDOG=1"], "a steady broker needs a timer for the watchdog alone"


def test_a_steady_broker_without_a_watchdog_is_quiet() -> None:
    service = Service(watchdog_ms=None)
    service.state = ("serving", False)
    service.follow()
    service.manager.ready()
    service.advance(1_000)
    assert service.advance(STEADY_INTERVAL_MS) == []
    service.state = ("serving more", False)
    assert service.advance(STEADY_INTERVAL_MS) == ["STATUS=serving more"]


def test_a_stop_extends_its_time_too(service: Service) -> None:
    service.follow()
    service.manager.ready()
    service.heard.take_all()
    service.manager.stopping("SIGTERM")
    assert service.heard.take_all() == ["STOPPING=1\nSTATUS=stopping: SIGTERM"]
    assert service.advance(WATCHDOG_MS) == ["WATCHDOG=1\nEXTEND_TIMEOUT_USEC=30000000"]
    service.manager.ready()  # of a reload that began before
    assert service.heard.take_all() == []
    service.manager.closing()
    told = "EXTEND_TIMEOUT_USEC=600000000\nSTATUS=closing the logs\nWATCHDOG=1\nWATCHDOG_USEC=600000000"
    assert service.heard.take_all() == [told]


def test_a_reload_ends_with_ready(service: Service) -> None:
    service.follow()
    service.manager.ready()
    service.heard.take_all()
    service.clock.elapsed_ms = 1_234.5
    service.manager.reloading()
    [begun] = service.heard.take_all()
    assert begun.startswith(f"RELOADING=1\nMONOTONIC_USEC={round(service.clock.monotonic_ms() * 1000)}\n")
    service.manager.ready()
    assert service.heard.take_all() == ["READY=1\nSTATUS=opening logs"]


def test_what_a_full_socket_did_not_take_comes_later_in_order(service: Service) -> None:
    service.follow()
    service.heard.is_full = True
    service.manager.ready()
    service.manager.stopping("SIGTERM")
    assert service.advance(1_000) == []
    service.heard.is_full = False
    first, second = service.advance(1_000)
    assert first.splitlines()[0] == "READY=1"
    assert "STOPPING=1" in first.splitlines()
    assert second.startswith("WATCHDOG=1")


@pytest.mark.parametrize(
    "variables, watchdog_ms",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
@pytest.mark.sockets
def test_the_environment_names_the_service_manager(variables: dict[str, str], watchdog_ms: float | None) -> None:
    environment = {"NOTIFY_SOCKET": "@headgate-nobody", **variables}
    manager = ServiceManager.take(environment, 7, ManualClock(0))
    assert manager is not None
    assert manager.watchdog_ms == watchdog_ms
    assert environment == {}
    manager.close()
    assert ServiceManager.take(dict(variables), 7, ManualClock(0)) is None
