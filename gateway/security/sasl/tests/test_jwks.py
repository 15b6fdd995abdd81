"""Key sets: what is read, and when they are fetched."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl import jwks
from headgate.gateway.security.sasl.jwks import CachedKeys, FetchFailed, InvalidKeySet, parse
from headgate.gateway.security.sasl.tests.exchanges import FakeClock


def member(key_id: str | None = "a", **more: Any) -> dict[str, Any]:
    """A shared key: the cheapest kind."""
    return {"kty": "oct", "k": "c2VjcmV0", **({} if key_id is None else {"kid": key_id}), **more}


def document(*members: Any) -> bytes:
    return json.dumps({"keys": members}).encode()


class Provider:
    """A provider of a key set, which counts."""

    def __init__(self, *key_ids: str) -> None:
        self.key_ids = key_ids
        self.fetches = 0
        self.fault: Exception | None = None

    def fetch(self) -> bytes:
        self.fetches += 1
        if self.fault is not None:
            raise self.fault
        return document(*map(member, self.key_ids))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def provider() -> Provider:
    return Provider("a", "b")


@pytest.fixture
def keys(provider: Provider, clock: FakeClock) -> CachedKeys:
    return CachedKeys(provider.fetch, clock, refresh_ms=60_000)


def found(keys: CachedKeys, key_id: str | None) -> list[str | None]:
    return [key.key_id for key in keys.find(key_id)]


def test_keys_that_are_not_for_signatures_are_left_out() -> None:
    members = (
        member("a"),
        member("b", use="enc"),
        member("c", use="sig"),
        {"kty": "RSA"},
        {"kty": 5},
        "x",
        member("d", alg=5),
    )
    assert [key.key_id for key in parse(document(*members))] == ["a", "c"]


def test_a_key_is_not_shown() -> None:
    (key,) = parse(document(member("a")))
    assert "secret" not in repr(key)


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "no list 'keys'"),
        (b'{"keys": {}}', "no list 'keys'"),
        (document(), "no key for signatures"),
        (document(*[member()] * (jwks.MAX_KEYS + 1)), "the limit is"),
        (b" " * (jwks.MAX_DOCUMENT_BYTES + 1), "the limit is"),
    ],
)
def test_a_document_without_keys_is_refused(wrong: bytes, reason: str) -> None:
    with pytest.raises(InvalidKeySet, match=reason):
        parse(wrong)


_NAMES = st.sampled_from(["keys", "kty", "k", "kid", "n", "e", "crv", "x", "alg", "use"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(_NAMES, each),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.binary()
    | st.builds(
        lambda value: json.dumps(value).encode(), json_values | st.fixed_dictionaries({"keys": st.lists(json_values)})
    )
)
def test_any_document_is_read_or_refused(data: bytes) -> None:
    with suppress(InvalidKeySet):
        parse(data)


def test_keys_are_fetched_once(keys: CachedKeys, provider: Provider) -> None:
    assert (found(keys, "a"), found(keys, None), found(keys, "b")) == (["a"], ["a", "b"], ["b"])
    assert provider.fetches == 1


def test_old_keys_are_fetched_again(keys: CachedKeys, provider: Provider, clock: FakeClock) -> None:
    found(keys, "a")
    provider.key_ids = ("c",)
    clock.time_ms += 59_999
    assert found(keys, "a") == ["a"]
    clock.time_ms += 1
    assert (found(keys, "a"), found(keys, "c")) == ([], ["c"])


def test_an_unknown_id_fetches_once_a_second(keys: CachedKeys, provider: Provider, clock: FakeClock) -> None:
    found(keys, "a")
    provider.key_ids = ("a", "new")
    assert [found(keys, f"x{number}") for number in range(100)] == [[]] * 100
    assert provider.fetches == 1
    clock.time_ms += jwks.MIN_PAUSE_MS
    assert found(keys, "new") == ["new"]
    assert provider.fetches == 2


def test_after_a_failure_the_keys_stay(keys: CachedKeys, provider: Provider, clock: FakeClock) -> None:
    found(keys, "a")
    provider.fault = FetchFailed("away")
    clock.time_ms += 60_000
    assert found(keys, "a") == ["a"]


def test_failures_double_the_pause(keys: CachedKeys, provider: Provider, clock: FakeClock) -> None:
    provider.fault = FetchFailed("away")
    for wait_ms, fetches in ((0, 1), (99, 1), (1, 2), (199, 2), (1, 3)):
        clock.time_ms += wait_ms
        with pytest.raises(FetchFailed, match="could not be fetched yet"):
            keys.find("a")
        assert provider.fetches == fetches
    provider.fault = None
    clock.time_ms += 400
    assert found(keys, "a") == ["a"]


def test_a_document_of_something_else_is_a_failure(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    keys = CachedKeys(lambda: b"<html>", clock, 60_000)
    with pytest.raises(FetchFailed):
        keys.find(None)
    assert "was not fetched: a key set is not JSON" in caplog.text


class SlowProvider:
    """A provider whose answer comes once another thread asks for a key too."""

    def __init__(self, provider: Provider, clock: FakeClock, wait_s: float) -> None:
        self.keys = CachedKeys(self._fetch, clock, 60_000, wait_s=wait_s)
        self.answers: list[object] = []
        self.thread = threading.Thread(target=lambda: self.answers.append(_outcome(self.keys)))
        self._provider = provider
        self._patience_s = 0.1 if wait_s else 5

    def _fetch(self) -> bytes:
        self.thread.start()
        self.thread.join(self._patience_s)
        return self._provider.fetch()


def test_a_login_without_a_key_waits_for_the_fetch_of_another(provider: Provider, clock: FakeClock) -> None:
    slow = SlowProvider(provider, clock, wait_s=5)
    assert found(slow.keys, "a") == ["a"]
    slow.thread.join(5)
    assert [key.key_id for answer in slow.answers for key in answer] == ["a"]  # type: ignore[attr-defined]
    assert provider.fetches == 1


def test_the_wait_for_another_fetch_has_an_end(provider: Provider, clock: FakeClock) -> None:
    slow = SlowProvider(provider, clock, wait_s=0)
    assert found(slow.keys, "a") == ["a"]
    assert slow.answers == ["the key set of bearer tokens could not be fetched yet"]


def _outcome(keys: CachedKeys) -> object:
    try:
        return keys.find("a")
    except FetchFailed as error:
        return str(error)
