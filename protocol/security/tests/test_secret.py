"""Secrets show nothing."""

from headgate.protocol.security.secret import Secret


def test_no_representation_has_the_text() -> None:
    secret = Secret("hush")
    assert [repr(secret), str(secret), f"{secret}", repr((secret,))] == ["[hidden]"] * 3 + ["([hidden],)"]


def test_equal_texts_are_equal_secrets() -> None:
    assert {Secret("a"), Secret("a")} == {Secret("a")}
    assert Secret("a") not in (Secret("b"), "a")
