"""What goes into the archive, by metadata and by folders; the archive itself is made once, of Headgate alone."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

from headgate.spark import pack
from headgate.spark.pack import PackFailed, closure, files_of, files_of_package, is_unused, normalized, requirements

LINES = [
    "construct<2.11,>=2.10.70",
    "numpy>=1.26; extra == 'spark'",
    'matplotlib; extra == "plot"',
    'colorama; sys_platform == "win32"',
    "pyspark[connect]==4.1.1 ; extra=='connect'",
]


def test_requirements_of_an_extra() -> None:
    assert list(requirements(LINES)) == ["construct", "colorama"]
    assert list(requirements(LINES, "spark")) == ["construct", "numpy", "colorama"]


def test_names_are_compared_as_pip_does() -> None:
    assert normalized("Google_RE2") == normalized("google.re2") == "google-re2"


def test_the_closure_has_all_that_headgate_runs_on() -> None:
    found = closure(["headgate"])
    assert {"headgate", "construct", "cramjam", "crc32c", "trio", "attrs"} <= set(found)
    assert "pyspark" not in found
    with pytest.raises(PackFailed, match="pip install no-such-package"):
        closure(["headgate", "no-such-package"])


def test_files_of_a_distribution_have_no_scripts_and_bytecode() -> None:
    names = {name for _, name in files_of(metadata.distribution("construct"))}
    assert "construct/__init__.py" in names
    assert not any(name.startswith("..") or name.endswith(".pyc") for name in names)


def test_files_of_ours_follow_links() -> None:
    names = {name for _, name in files_of_package("headgate")}
    assert {"headgate/__init__.py", "headgate/spark/pack.py", "headgate/protocol/schema.py"} <= names
    assert not any("/tests/" in name or "/bench/" in name for name in names)
    assert not list(files_of_package("no_such_package"))


@pytest.mark.parametrize("name, state", [("a/__pycache__/b.py", True), ("a.pth", True), ("pyarrow/lib.so", False)])
def test_what_is_of_no_use(name: str, state: bool) -> None:
    assert is_unused(name) == state


def test_the_archive_has_a_python_and_our_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("venv_pack")

    def headgate_alone(names: Iterable[str], extra: str = "") -> dict[str, metadata.Distribution]:
        return {"construct": metadata.distribution("construct")}

    monkeypatch.setattr(pack, "closure", headgate_alone)
    monkeypatch.setattr(pack, "_OURS", ("headgate.protocol.records",))
    target = tmp_path / "made.tar.gz"
    count, size = pack.pack(target)
    assert count == 1
    assert size == target.stat().st_size
    with tarfile.open(target) as archive:
        names = archive.getnames()
    assert "bin/python" in names
    assert any(name.endswith("site-packages/construct/core.py") for name in names)
    assert [path.name for path in tmp_path.iterdir()] == ["made.tar.gz"]


def test_a_file_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "made.tar.gz"
    target.write_text("mine")
    assert pack.main([str(target)]) == 1
    assert "exists" in capsys.readouterr().err
    assert target.read_text() == "mine"
    with pytest.raises(SystemExit):
        pack.main(["made.rar"])
