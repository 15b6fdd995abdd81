"""The session that all parts share."""

from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.session import SessionEvent
from headgate.gateway.zookeeper.shared_session import SharedSession
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import opener


def test_every_listener_gets_every_event() -> None:
    keeper, time = ZooKeeperModel(), ManualTime()
    shared = SharedSession("zk:2181/x", 18_000, time.scheduler, opener(keeper))
    seen: list[tuple[str, SessionEvent]] = []

    def first(event: SessionEvent) -> None:
        seen.append(("first", event))
        shared.listeners.remove(first)

    shared.listeners += [first, lambda event: seen.append(("second", event))]
    shared.session.start()
    time.advance()
    keeper.stop()
    assert seen == [
        ("first", SessionEvent.CONNECTED),
        ("second", SessionEvent.CONNECTED),
        ("second", SessionEvent.SUSPENDED),
    ]
