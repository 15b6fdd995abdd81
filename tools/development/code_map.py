"""The map of the code in docs/architecture.md, made from the heads of the modules. `make map` writes it.

A room is a folder with modules. The map has the first sentence of its `__init__.py`, then the first sentence of each
module. Rooms with one module for each API have no list. `make tidy` compares the page with the tree.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

PAGE: Final = "docs/architecture.md"
PACKAGES: Final = ("protocol", "storage", "gateway", "tools", "spark", "compat_tests")
BEGIN, END = "<!-- The map: `make map` writes it from the heads of the modules. -->\n", "<!-- End of the map. -->\n"
WIDTH: Final = 120
# One module for each API: docs/protocol.md lists them
WITHOUT_LIST: Final = ("protocol/messages", "gateway/api/handlers")
SMALL: Final = ("__init__.py", "__main__.py", "conftest.py")


def head(source: str) -> str:
    """The first line of a module's docstring, without the full stop."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].removesuffix(".")


def is_mapped(path: str) -> bool:
    *folders, name = path.split("/")
    is_test = "tests" in folders or (folders[:1] == ["compat_tests"] and name.startswith("test_"))
    return path.startswith(tuple(f"{package}/" for package in PACKAGES)) and name.endswith(".py") and not is_test


def rooms(sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Folder -> file name -> head of the module, in the order of the page."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(filter(is_mapped, sources), key=lambda path: (PACKAGES.index(path.split("/")[0]), path)):
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, {})[name] = head(sources[path])
    return found


def code_map(sources: Mapping[str, str]) -> str:
    """The map of modules, path -> source."""
    lines: list[str] = []
    for folder, heads in rooms(sources).items():
        lines += ["", f"### `{folder}/`", "", *wrap(f"{heads.get('__init__.py', '')}.")]
        modules = {} if folder in WITHOUT_LIST else {name: head for name, head in heads.items() if name not in SMALL}
        if modules:
            lines.append("")
        for name, sentence in modules.items():
            lines += wrap(f"- `{name}`: {sentence}", "  ")
    return "\n".join(lines[1:]) + "\n"


def wrap(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def with_map(page: str, sources: Mapping[str, str]) -> str:
    """The page with the present map between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.rpartition(END)
    return f"{before}{BEGIN}\n{code_map(sources)}\n{END}{after}"


def findings(page: str, sources: Mapping[str, str]) -> Iterator[str]:
    """A finding if the page has another map than the tree."""
    if with_map(page, sources) != page:
        yield f"{PAGE}: the map differs from the heads of the modules: `make map` writes it"
