from __future__ import annotations

import pytest

from headgate.tools.development.counts import above, below, count

CLASS = "class Row:\n    pass\n"


def counted(**sources: str) -> dict[str, list[str]]:
    return count({f"{path.replace('__', '/')}.py": source for path, source in sources.items()})


def test_a_public_type_has_one_home() -> None:
    alias = "from typing import TypeAlias\nRow: TypeAlias = list[str]\nOther = dict[str, int]\n"
    assert counted(storage__a=CLASS, tools__b=alias) == {
        "type names with several homes": ["Row: storage/a.py:1, tools/b.py:2"]
    }


def test_private_and_generic_names_may_be_common() -> None:
    source = "from typing import TypeVar\nT = TypeVar('T')\nclass _Row:\n    pass\nLIMIT = OTHER\n"
    assert counted(storage__a=source, storage__b=source) == {}


def test_tests_benches_and_kafkas_names_are_not_counted() -> None:
    assert counted(storage__a=CLASS, storage__tests__a=CLASS, tools__bench__a=CLASS, protocol__messages__a=CLASS) == {}


def test_results_without_a_type_are_counted_in_the_gateway() -> None:
    source = "def f() -> Any: ...\nasync def g() -> Any: ...\ndef h() -> list[Any]: ...\n"
    assert counted(gateway__a=source, storage__a=source) == {
        "functions of gateway that return Any": ["gateway/a.py:1 f", "gateway/a.py:2 g"]
    }


@pytest.mark.parametrize("statement, places", [("self.c: bool = True", 1), ("self.c = 0", 0), ("pass", 0)])
def test_three_flags_of_an_object_are_counted(statement: str, places: int) -> None:
    source = f"class A:\n    def __init__(self):\n        self.a = self.b = False\n        {statement}\n"
    assert len(counted(storage__a=source).get("objects with three flags", ())) == places


@pytest.mark.parametrize(
    "source, place",
    [
        ('"""Told anew."""\n', "storage/log/a.py:1 Told"),
        ('class A:\n    """One.\n\n    Nobody knows.\n    """\n', "storage/log/a.py:4 Nobody"),
        ("a = 1  # what is left\n", "storage/log/a.py:1 what is"),
    ],
)
def test_words_are_counted_by_room(source: str, place: str) -> None:
    assert counted(storage__log__a=source)["private language in storage/log"][0] == place


def test_code_and_other_words_are_free() -> None:
    source = '"""The log, and what it means. Untold retold."""\ntell = told("whoever")\n'
    assert counted(storage__log__a=source) == {}


@pytest.mark.parametrize(
    "look, places",
    [
        ("log._our_name = {}", 1),
        ("log.segments._our_name.clear()", 1),
        ('monkeypatch.setattr(log, "_our_name", {})', 1),
        ('monkeypatch.setattr(\n    "headgate.storage.log.a._our_name", {}\n)', 1),
        ("from headgate.storage.log.a import Log, _our_name", 1),
        ("from headgate.storage.log.a import (\n    Log,\n    _our_name,\n)", 1),
        ("self._our_name = super()._our_name = log.memo", 0),
        ("kazoo._their_name = row._replace(a=1)", 0),
    ],
)
def test_looks_of_tests_at_private_names_are_counted(look: str, places: int) -> None:
    product = "class Log:\n    def __init__(self):\n        self._our_name = None\n    def _replace(self): ...\n"
    found = counted(storage__log__a=product, storage__log__tests__test_a=f"\n{look}\n")
    assert len(found.get("private looks of tests", ())) == places


def test_a_count_above_its_limit_is_a_finding() -> None:
    found = {"a": ["x.py:1", "x.py:2"], "new": ["y.py:1"]}
    first, second = above(found, {"a": 1})
    assert first.startswith('a: 2, over the limit of 1; `python -m headgate.tools.development.counts "a"`')
    assert second.startswith("new: 1, over the limit of 0;")
    assert list(above(found, {"a": 2, "new": 1})) == []


def test_a_limit_follows_its_count_down() -> None:
    assert list(below({"a": ["x.py:1"]}, {"a": 2, "gone": 1})) == [
        "a: 1; lower the limit of 2 in counts.py",
        "gone: 0; lower the limit of 1 in counts.py",
    ]
    assert list(below({"a": ["x.py:1"]}, {"a": 1})) == []
