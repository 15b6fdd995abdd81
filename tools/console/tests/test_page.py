"""The files of the page: nothing from outside, no HTML out of values, and the vendored files as they were published."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from headgate.tools.console.app import PAGE

VENDOR = PAGE / "vendor"
OURS = sorted(path for path in PAGE.rglob("*.js") if VENDOR not in path.parents)
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""")
MAP = json.loads((PAGE / "index.html").read_text().partition('"importmap">')[2].partition("</script>")[0])["imports"]


def test_vendored_files_are_those_of_the_packages() -> None:
    rows = json.loads((VENDOR / "vendor.json").read_text())
    for row in rows:
        assert hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
    present = {path.name for path in VENDOR.iterdir()} - {"vendor.json"}
    assert present == {row["file"] for row in rows}
    for package in {row["package"] for row in rows}:
        assert f"{package}.license" in {row["file"].lower() for row in rows}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_imports_are_files_of_the_page(path: Path) -> None:
    for name in IMPORT.findall(path.read_text()):
        target = PAGE / MAP[name] if name in MAP else path.parent / name
        assert target.resolve().is_relative_to(PAGE.resolve()), name
        assert target.is_file(), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_no_value_becomes_html_or_script(path: Path) -> None:
    found = re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(|new Function|srcdoc"
        r"|DOMParser",
        path.read_text(),
    )
    assert found is None, found
    assert "http://" not in path.read_text()
    assert "https://" not in path.read_text()


def test_all_pages_have_a_module() -> None:
    table = (PAGE / "pages.js").read_text()
    modules = set(re.findall(r'import\("\./pages/([\w-]+)\.js"\)', table))
    assert modules
    assert all((PAGE / "pages" / f"{name}.js").is_file() for name in modules)
