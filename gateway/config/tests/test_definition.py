"""Types, ranges and their descriptions."""

import pytest

from headgate.gateway.config.definition import Definition, Type, Value
from headgate.protocol.security.secret import Secret


def definition(type_: Type, allowed: str = "", default: str | None = None) -> Definition:
    return Definition("some.setting", type_, default, allowed, "")


@pytest.mark.parametrize(
    "type_, allowed, text, value",
    [
        (Type.INT, "1..", " 5 ", 5),
        (Type.INT, "", "+5", 5),
        (Type.INT, "", "-2147483648", -2147483648),
        (Type.INT, "-1 or 1..9", "-1", -1),
        (Type.INT, "-131072..22", "-131072", -131072),
        (Type.LONG, "", "9223372036854775807", 9223372036854775807),
        (Type.SHORT, "1..", "32767", 32767),
        (Type.DOUBLE, "0..1", "0.5", 0.5),
        (Type.DOUBLE, "", "1e3", 1000.0),
        (Type.BOOLEAN, "", "True", True),
        (Type.BOOLEAN, "", " false ", False),
        (Type.STRING, "a|b", "b", "b"),
        (Type.STRING, "", "  any thing ", "any thing"),
        (Type.LIST, "compact|delete", "delete , compact", ("delete", "compact")),
        (Type.LIST, "", "", ()),
        (Type.PASSWORD, "", "hush", Secret("hush")),
    ],
)
def test_values(type_: Type, allowed: str, text: str, value: Value) -> None:
    assert definition(type_, allowed).parse(text) == value


@pytest.mark.parametrize(
    "type_, allowed, text, sentence",
    [
        (Type.INT, "1..", "0", "a whole number from 1 to 2147483647"),
        (Type.INT, "1..", "ten", "a whole number from 1 to 2147483647"),
        (Type.INT, "1..", "1_000", "a whole number from 1 to 2147483647"),
        (Type.INT, "", "\u0663", "a whole number from -2147483648 to 2147483647"),
        (Type.INT, "", "2147483648", "a whole number from -2147483648 to 2147483647"),
        (Type.INT, "-1 or 1..9", "0", "a whole number -1 or from 1 to 9"),
        (Type.INT, "", "1.0", "a whole number from -2147483648 to 2147483647"),
        (Type.LONG, "0..", "9223372036854775808", "a whole number from 0 to 9223372036854775807"),
        (Type.DOUBLE, "0..1", "1.1", "a number from 0 to 1"),
        (Type.DOUBLE, "", "nan", "a number of any size"),
        (Type.BOOLEAN, "", "yes", "true or false"),
        (Type.STRING, "CreateTime|LogAppendTime", "createtime", "one of: CreateTime, LogAppendTime"),
        (Type.LIST, "compact|delete", "delete,remove", "a list of: compact, delete"),
        (Type.LIST, "compact|delete", "delete,delete", "a list of: compact, delete"),
        (Type.LIST, "compact|delete", "", "a list of: compact, delete"),
    ],
)
def test_what_is_refused_and_what_is_said(type_: Type, allowed: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        definition(type_, allowed).parse(text)
    assert str(caught.value) == sentence


def test_a_default_is_text_of_the_same_kind() -> None:
    assert definition(Type.INT, default="3").default_value() == 3
    assert definition(Type.INT).default_value() is None


def test_a_secret_does_not_show() -> None:
    secret = Secret("hush")
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert secret.text == "hush"
    assert secret != Secret("other")
    assert len({secret, Secret("hush")}) == 1
