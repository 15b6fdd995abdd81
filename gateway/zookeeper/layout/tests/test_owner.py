"""The process behind a session."""

import pytest

from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.owner import SessionOwner

OWNER = SessionOwner("h", 4711, 1_700_000_000_000, 18_000, "boot", {"a": "1:2", "b": "1:3"})


def test_the_node() -> None:
    assert SessionOwner.path(3) == "/headgate/brokers/3"
    assert SessionOwner.decode(3, OWNER.encode()) == OWNER


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[1]", OWNER.encode().replace(b'"locks":{', b'"locks":7,"x":{')])
def test_other_data(data: bytes | None) -> None:
    with pytest.raises(InvalidNode, match="/headgate/brokers/3"):
        SessionOwner.decode(3, data)


def test_the_same_directory() -> None:
    assert OWNER.shares_directory(OWNER._replace(locks={"b": "9:9"}))
    assert not OWNER.shares_directory(OWNER._replace(locks={"c": "1:2"}))


def test_the_same_lock() -> None:
    assert OWNER.holds_lock_of(OWNER._replace(process=1, locks={"b": "1:3"}))
    assert not OWNER.holds_lock_of(OWNER._replace(locks={"a": "1:9"})), "a copy of the directory"
    assert not OWNER.holds_lock_of(OWNER._replace(boot="another")), "another machine, or this one after a reboot"
    assert not OWNER._replace(boot="").holds_lock_of(OWNER._replace(boot="")), "not Linux"
