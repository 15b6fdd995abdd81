"""After a stall: an answer of ZooKeeper, or the end of the session, ends the check."""

from __future__ import annotations

from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.membership.session_check import SessionCheck
from headgate.gateway.zookeeper.session import SessionEvent
from headgate.gateway.zookeeper.shared_session import SharedSession
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import opener


class Checked:
    """A session and its check."""

    def __init__(self) -> None:
        self.keeper, self.time = ZooKeeperModel(), ManualTime()
        self.shared = SharedSession("zk:2181", 18_000, self.time.scheduler, opener(self.keeper))
        self.events: list[SessionEvent | str] = []
        self.shared.listeners.append(self.events.append)
        self.shared.session.start()
        self.time.advance()
        self.check = SessionCheck(self.shared)
        self.events.clear()

    def begin(self) -> None:
        self.check.begin(lambda: self.events.append("ended"))
        self.time.advance()


def test_an_answer_shows_that_the_session_lives() -> None:
    checked = Checked()
    checked.begin()
    assert checked.events == ["ended"]


def test_the_leads_end_before_the_check() -> None:
    checked = Checked()
    session = checked.keeper.sessions[0]
    checked.keeper.expire(session.session_id)
    checked.begin()
    assert checked.events == [SessionEvent.SUSPENDED]
    checked.keeper.connect(session)
    checked.time.advance()
    assert checked.events[:3] == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED, "ended"]


def test_a_session_that_is_connected_again_lives() -> None:
    checked = Checked()
    checked.keeper.stop()
    checked.begin()
    assert checked.events == [SessionEvent.SUSPENDED]
    checked.keeper.start()
    checked.time.advance()
    assert checked.events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED, "ended"]


def test_a_silent_zookeeper_ends_no_check() -> None:
    checked = Checked()
    checked.keeper.freeze()
    checked.begin()
    assert checked.events == []
