from __future__ import annotations

from pathlib import Path

import pytest

from headgate.tools.development.package import build, differences, installed_modules, wrong_files


def test_equal_wheels_may_list_their_files_differently() -> None:
    record = "headgate-1.dist-info/RECORD"
    assert list(differences({"headgate/a.py": b"1", record: b"x"}, {"headgate/a.py": b"1", record: b"y"})) == []


def test_a_file_that_only_one_wheel_has_is_named() -> None:
    assert [finding.split(";")[0] for finding in differences({"a": b""}, {"b": b""})] == [
        "a: only the wheel from the tree has it",
        "b: only the wheel from the source archive has it",
    ]


def test_different_contents_are_named() -> None:
    (finding,) = differences({"headgate/a.py": b"1"}, {"headgate/a.py": b"2"})
    assert finding.startswith("headgate/a.py: the wheels")


def test_another_name_a_test_and_a_missing_module_are_named() -> None:
    names = ["headgate/a.py", "gateway/a.py", "headgate/storage/tests/test_a.py", "headgate-1.dist-info/METADATA"]
    assert [finding.split(":")[0] for finding in wrong_files(names, ["headgate/a.py", "headgate/b.py"])] == [
        "gateway/a.py",
        "headgate/storage/tests/test_a.py",
        "headgate/b.py",
    ]


def test_modules_are_looked_up_in_the_tree(tmp_path: Path) -> None:
    for name in ("src/headgate/__init__.py", "gateway/a.py", "gateway/tests/test_a.py", "tools/bench/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert installed_modules(tmp_path) == ["headgate/__init__.py", "headgate/gateway/a.py"]


@pytest.mark.sockets
def test_a_tree_that_cannot_be_built_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(RuntimeError, match=r"the wheel of .* cannot be built:"):
        build(tmp_path, "wheel", tmp_path / "dist")
