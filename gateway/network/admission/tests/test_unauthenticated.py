"""Too many unauthenticated connections: which one ends, and when a new one is refused instead."""

from headgate.gateway.network.admission.unauthenticated import COMPARED, UnauthenticatedConnections


class Admission:
    """Connections by number, with what has been closed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.connections = UnauthenticatedConnections()
        self.closed: dict[int, str] = {}
        self.opened = 0

    def admit(self, now_ms: float) -> str | None:
        refusal = self.connections.make_room(self.most, now_ms)
        if refusal is None:
            number = self.opened
            self.opened += 1
            self.last = self.connections.add(lambda reason: self.closed.__setitem__(number, reason), now_ms)
        return refusal


def test_the_oldest_that_kept_the_broker_waiting_ends() -> None:
    admission = Admission(2)
    assert admission.admit(0.0) is None
    assert admission.admit(500.0) is None
    assert admission.admit(1_000.0) is None
    assert list(admission.closed) == [0]
    assert "it kept this broker waiting for 1 s, and 2 connections are not authenticated" in admission.closed[0]
    assert len(admission.connections) == 2


def test_a_new_one_is_refused_while_all_make_progress() -> None:
    admission = Admission(2)
    assert admission.admit(0.0) is None
    assert admission.admit(0.0) is None
    refusal = admission.admit(999.0)
    assert refusal == "2 connections are not authenticated yet; see headgate.max.connections.unauthenticated"
    assert not admission.closed


def test_the_time_of_the_broker_does_not_count() -> None:
    admission = Admission(1)
    admission.admit(0.0)
    admission.last.work_begins(300.0)
    assert admission.admit(9_000.0) is not None  # a thread has the connection, or will have it
    admission.last.work_ends(9_000.0)
    assert admission.admit(9_500.0) is not None
    admission.last.work_begins(9_600.0)  # 900 ms by now
    admission.last.work_ends(9_700.0)
    assert admission.admit(9_750.0) is not None
    assert admission.admit(9_800.0) is None


def test_bytes_one_at_a_time_are_no_progress() -> None:
    admission = Admission(1)
    admission.admit(0.0)
    for step in range(10):  # each byte is work for a moment
        admission.last.work_begins(step * 100.0)
        admission.last.work_ends(step * 100.0)
    assert admission.admit(1_000.0) is None
    assert list(admission.closed) == [0]


def test_a_client_that_is_known_makes_room() -> None:
    admission = Admission(1)
    admission.admit(0.0)
    admission.last.end()
    admission.last.end()
    assert admission.admit(1.0) is None
    assert not admission.closed


def test_the_search_for_a_late_one_is_bounded() -> None:
    admission = Admission(2 * COMPARED)
    for _ in range(2 * COMPARED):
        admission.admit(0.0)
        if admission.opened <= COMPARED:
            admission.last.work_begins(0.0)
    assert admission.admit(5_000.0) is not None
