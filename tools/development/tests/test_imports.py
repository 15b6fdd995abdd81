from __future__ import annotations

import pytest

from headgate.tools.development.imports import Import, circles, findings, imports, nearest, neighbours, too_full


def from_(module: str, name: str) -> str:
    return f"from headgate.{module} import {name}\n"


def test_imports_for_types_and_within_functions_count() -> None:
    source = from_("a.one", "One") + "if TYPE_CHECKING:\n    " + from_("b", "two") + "def f():\n    " + from_("c", "x")
    assert sorted(imports("a/mine.py", source, {"a.one", "b.two", "c.x"})) == [
        Import("a.mine", "a.one", 1),
        Import("a.mine", "b.two", 3),
        Import("a.mine", "c.x", 5),
    ]


def test_an_import_means_the_module_or_what_has_the_name() -> None:
    assert nearest("a.b.Name", {"a", "a.b"}) == "a.b"
    assert nearest("other.Name", {"a"}) is None


def test_circles_are_found_whole_and_once() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"e", "a"}}
    assert list(circles(graph)) == [["a", "b", "c"]]


def test_neighbours_are_in_the_innermost_common_folder() -> None:
    assert neighbours("gateway.api.handlers.fetch", "gateway.api.context") == (
        "gateway.api",
        "gateway.api.handlers",
        "gateway.api.context",
    )
    assert neighbours("storage.log.log", "protocol.errors") == ("", "storage", "protocol")


@pytest.mark.parametrize("where", ["", "if TYPE_CHECKING:\n    ", "def f():\n    "])
def test_circles_of_modules_are_reported_wherever_they_import(where: str) -> None:
    (finding,) = findings({"a/one.py": from_("a.two", "Two"), "a/two.py": where + from_("a.one", "One")})
    assert finding.startswith("a circle of imports: a.one, a.two;")


def test_an_exception_allows_its_circle_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"a/one.py": from_("a.two", "Two"), "a/two.py": from_("a.one", "One")}
    monkeypatch.setattr("headgate.tools.development.imports.ALLOWED", {("a.two", "a.one"): "a command table"})
    assert list(findings(sources)) == []
    monkeypatch.setattr("headgate.tools.development.imports.ALLOWED", {("a.two", "a.three"): "a command table"})
    gone, circle = findings(sources)
    assert gone == "imports.py allows a.two -> a.three, which is gone: take it out of ALLOWED"
    assert circle.startswith("a circle of imports: a.one, a.two;")


def test_circles_of_rooms_are_reported_even_for_types() -> None:
    rooms = {"a/__init__.py": "", "a/x/__init__.py": "", "a/y/__init__.py": ""}
    there = from_("a.y.two", "Two")
    back = "if TYPE_CHECKING:\n    " + from_("a.x.three", "Three")
    sources = {**rooms, "a/x/one.py": there, "a/x/three.py": "", "a/y/two.py": back}
    (finding,) = findings(sources)
    assert finding == "a circle of rooms in a: a.x, a.y; a.x.one:1 -> a.y.two; a.y.two:2 -> a.x.three"
    assert list(findings({**sources, "a/y/two.py": ""})) == []


def test_the_top_of_a_layered_folder_is_ground_floor_or_roof() -> None:
    rooms = {"spark/__init__.py": "", "spark/x/__init__.py": "", "spark/ground.py": ""}
    sources = {**rooms, "spark/roof.py": from_("spark.x.one", "One"), "spark/x/one.py": from_("spark.ground", "G")}
    (finding,) = findings(sources)
    where = "spark.roof:1 -> spark.x.one; spark.x.one:1 -> spark.ground"
    assert finding == f"a circle of folders: spark, spark.x; {where}"
    assert (
        list(
            findings({path.replace("spark", "other"): text.replace("spark", "other") for path, text in sources.items()})
        )
        == []
    )


def test_tests_may_import_what_they_like() -> None:
    assert list(findings({"a/one.py": "", "a/tests/test_one.py": from_("a.tests.helper", "x")})) == []


def test_a_full_folder_is_reported_unless_its_size_is_given() -> None:
    (finding,) = too_full([f"a/b/m{number}.py" for number in range(17)])
    assert finding == "a/b has 17 modules, over 16; make a room of some of them"
    assert list(too_full([f"protocol/messages/m{number}.py" for number in range(80)])) == []
    assert list(too_full(["a/__init__.py", "a/conftest.py", *(f"a/m{number}.py" for number in range(16))])) == []


@pytest.mark.parametrize("folder", ["a/tests", "a/tests/admin", "compat_tests/spark"])
def test_a_full_folder_of_tests_is_reported(folder: str) -> None:
    (finding,) = too_full([f"{folder}/test_{number}.py" for number in range(25)])
    assert finding == f"{folder} has 25 modules, over 24; make a room of some of them"
    assert list(too_full([f"{folder}/test_{number}.py" for number in range(24)])) == []
