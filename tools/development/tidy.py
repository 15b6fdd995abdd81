"""The tidy check: budgets and habits that no linter knows. `make tidy`, a part of `make check`.

Functions have a median of at most 10 lines, a 95th percentile of 50, and none over 70; files a median of about 120, a
95th percentile of 450, and none over 700. Each module has a test file. Every module that pyproject.toml names exists,
or is in PLANNED. The map in docs/architecture.md agrees with the heads of the modules; `make map` writes it
(`code_map.py`). Imports use the installed name `headgate`. Only `storage/log` changes a log. Modules, rooms and folders
of spark import each other in no circle, not even within functions or for types (`imports.py`). Whatever waits is a task
(`waits.py`). Some counts may only fall (`counts.py`). Lock files name no place. Pages have short lines. The tree holds
no leftovers of a run by hand. Prints every finding with advice, then the figures. Exit status: 1 if there is a finding.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headgate.tools.development import code_map, counts, imports, waits
from headgate.tools.development.syntax import parsed, statements

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("protocol", "storage", "gateway", "tools", "spark")

FUNCTION_MEDIAN, FUNCTION_95TH, FUNCTION_LONGEST = 10, 50, 70
FILE_MEDIAN, FILE_95TH, FILE_LONGEST = 150, 450, 700

# Modules that pyproject.toml names before they are built; a name leaves this set when its module exists
PLANNED: Final[frozenset[str]] = frozenset()

PAGE_WIDTH: Final = 120

# Patterns of modules without a test file of their own
TESTED_ELSEWHERE: Final = (
    "*/__init__.py",
    "*/__main__.py",
    "*/conftest.py",
    "gateway/config/*",  # tables, tested by gateway/tests/test_config*.py
    "gateway/api/handlers/*",  # tested over the wire, with dispatch around them
    "protocol/messages/*",  # property tests cover every message of the registry
    "tools/bench/*",  # its programs in C are tested with what starts them
)

# All names in the top folder; any other was left there by accident
TOP: Final = frozenset(
    {
        *PACKAGES,
        ".ci",
        ".gitignore",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "compat_tests",
        "conftest.py",
        "docs",
        "pyproject.toml",
        "requirements",
        "src",
    }
)
# Smaller files are leftovers: a process id, the empty file of a redirection
SMALLEST_BYTES: Final = 16

# The files of the console's page have the budget of any file; those of other projects are as published
PAGE: Final = "tools/console/page/"
VENDOR: Final = f"{PAGE}vendor/"
PAGE_FILES: Final = (".js", ".css", ".html")

# The names of a `storage.log.log.Log`
LOG_NAMES: Final = ("log", "_log")

# A path of one machine or a host of one network: a lock file or a page that names it is wrong elsewhere
PLACES: Final = re.compile(r"--(?:extra-)?index-url|--find-links|file://|/(?:root|home)/|/tmp/")


@dataclass(frozen=True)
class LineCount:
    """A function or a file and its number of lines."""

    where: str
    lines: int


def function_lengths(path: str, source: str) -> Iterator[LineCount]:
    """The length of every function of a file, nested ones included, from `def` to the last line."""
    for node in statements(parsed(path, source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield LineCount(f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)


def percentile_95(lengths: Sequence[LineCount]) -> int:
    ordered = sorted(length.lines for length in lengths)
    return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0


def median(lengths: Sequence[LineCount]) -> float:
    return statistics.median(length.lines for length in lengths) if lengths else 0


def over_budget(kind: str, lengths: Sequence[LineCount], limits: tuple[int, int, int]) -> Iterator[str]:
    """Findings about lengths over the limits (median, 95th percentile, longest)."""
    typical, long, longest = limits
    for length in lengths:
        if length.lines > longest:
            yield f"{length.where}: {length.lines} lines; split it, no {kind} has more than {longest}"
    if percentile_95(lengths) > long:
        worst = ", ".join(length.where for length in sorted(lengths, key=lambda length: -length.lines)[:5])
        yield f"95th percentile of {kind}s is {percentile_95(lengths)} lines, over {long}; the longest: {worst}"
    if median(lengths) > typical:
        yield f"median {kind} has {median(lengths):g} lines, over {typical}"


def untested(paths: Iterable[str]) -> Iterator[str]:
    """Findings about modules without <package>/tests/test_<module>.py, there or in a package above."""
    known = set(paths)
    for path in sorted(known):
        parts = path.split("/")
        if parts[0] not in PACKAGES or "tests" in parts or not path.endswith(".py"):
            continue
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in TESTED_ELSEWHERE):
            continue
        candidates = test_files(parts)
        if known.isdisjoint(candidates):
            yield f"{path}: no test file; write {candidates[0]}"


def test_files(parts: list[str]) -> list[str]:
    """The possible test files of a module, the best one first."""
    *folders, name = parts
    found = [f"{'/'.join(folders)}/tests/test_{name}"]
    for depth in range(len(folders) - 1, 0, -1):
        found.append(f"{'/'.join(folders[:depth])}/tests/test_{'_'.join(folders[depth:])}_{name}")
        found.append(f"{'/'.join(folders[:depth])}/tests/test_{name}")
    return found


def named_modules(project: dict[str, Any]) -> set[str]:
    """Every module of Headgate in the import contracts and lint exceptions of pyproject.toml."""
    words: list[str] = []
    for contract in project["tool"]["importlinter"]["contracts"]:
        prefix = "".join(f"{container}." for container in contract.get("containers", []))
        words += [prefix + name for layer in contract.get("layers", []) for name in re.findall(r"\w[\w.]*", layer)]
        for key in ("source_modules", "forbidden_modules", "protected_modules", "allowed_importers", "modules"):
            words += contract.get(key, [])
        words += [side for pair in contract.get("ignore_imports", []) for side in pair.split(" -> ")]
    for pattern in project["tool"]["ruff"]["lint"]["per-file-ignores"]:
        words.append(pattern.removesuffix(".py").replace("/", "."))
    ours = (*PACKAGES, "compat_tests")
    plain = {word.removesuffix(".**").removesuffix(".*").removeprefix("headgate.") for word in words}
    return {word for word in plain if word.split(".")[0] in ours and re.fullmatch(r"[\w.]+", word)}


def exists(module: str, paths: set[str]) -> bool:
    path = module.replace(".", "/")
    return f"{path}.py" in paths or any(known.startswith(f"{path}/") for known in paths)


def misnamed(names: Iterable[str], paths: set[str]) -> Iterator[str]:
    """Findings about names of pyproject.toml without a module, and about planned names that exist by now."""
    for name in sorted(names):
        if not exists(name, paths) and name not in PLANNED:
            yield f"pyproject.toml names {name}, which does not exist; correct it, or add it to PLANNED in tidy.py"
    for name in sorted(PLANNED):
        if exists(name, paths):
            yield f"{name} exists by now: take it out of PLANNED in tidy.py"


def strays(paths: Iterable[str]) -> Iterator[str]:
    """Findings about unknown files and folders in the top folder."""
    for name in sorted({path.split("/")[0] for path in paths} - TOP):
        yield f"{name} is not known in the top folder; remove it, or add it to TOP in tidy.py"


def scraps(sizes: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Findings about almost empty files, except `__init__.py`."""
    for path, size in sizes:
        if size < SMALLEST_BYTES and not path.endswith("__init__.py"):
            yield f"{path} has {size} bytes: remove it; so small a file was left by accident"


def places(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := PLACES.search(line):
            yield f"{path}:{number}: names a place of one machine or network: {found.group()}"


def wide_lines(path: str, page: str) -> Iterator[str]:
    """Findings about lines of prose over 120 characters; rows of tables and blocks of code may be longer."""
    is_code = False
    for number, line in enumerate(page.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > PAGE_WIDTH and not is_code and not line.startswith(("|", "    ")):
            yield f"{path}:{number}: {len(line)} characters; no line of a page has more than {PAGE_WIDTH}"


def old_imports(path: str, source: str) -> Iterator[str]:
    """Findings about imports by the name of a folder: an installed package has the name `headgate` only."""
    for node in statements(parsed(path, source)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] in PACKAGES:
                yield f"{path}:{node.lineno}: imports {name}; say headgate.{name}"


def changed_logs(path: str, source: str) -> Iterator[str]:
    """Assignments to an attribute of something called `log`. Only the parts of a log, in `storage/log`, make them."""
    for node in ast.walk(parsed(path, source)):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            log = log_of(node.value)
            if log:
                yield f"{path}:{node.lineno}: changes {ast.unparse(node)}; only {log} itself does that: ask it to"


def log_of(value: ast.expr) -> str:
    """The name of a log in an expression: `log`, `self._log` or `partition.log`; "" without one."""
    while isinstance(value, ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Attribute) and value.attr in LOG_NAMES:
            return ast.unparse(value)
        value = value.value
    return value.id if isinstance(value, ast.Name) and value.id in LOG_NAMES else ""


def silenced_seams(path: str, source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(r"#\s*noqa:.*TID251", line):
            yield f"{path}:{number}: a seam is listed in pyproject.toml, not silenced in place"


def tracked(root: Path) -> list[str]:
    """The paths that git tracks, and new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(path for path in set(listing) if (root / path).is_file())


def findings(
    root: Path, paths: list[str], functions: list[LineCount], files: list[LineCount], counted: counts.Places
) -> Iterator[str]:
    """All findings about a tree; also fills `functions`, `files` and `counted`."""
    sources = dict[str, str]()
    for path in paths:
        if path.endswith(".py"):
            source = sources[path] = (root / path).read_text()
            functions += function_lengths(path, source)
            files.append(LineCount(path, source.count("\n")))
            yield from silenced_seams(path, source)
            yield from old_imports(path, source)
            if re.match(r"storage/(?!log/)|gateway/", path) and "/tests/" not in path:
                yield from changed_logs(path, source)
        elif path.startswith(PAGE) and not path.startswith(VENDOR) and path.endswith(PAGE_FILES):
            files.append(LineCount(path, (root / path).read_text().count("\n")))
        elif path.endswith(".md"):
            yield from wide_lines(path, (root / path).read_text())
        elif path.startswith("requirements/"):
            yield from places(path, (root / path).read_text())
    yield from over_budget("function", functions, (FUNCTION_MEDIAN, FUNCTION_95TH, FUNCTION_LONGEST))
    yield from over_budget("file", files, (FILE_MEDIAN, FILE_95TH, FILE_LONGEST))
    counted |= counts.count(sources)
    yield from counts.above(counted, counts.LIMITS)
    yield from imports.findings({path: sources[path] for path in sources if path.split("/")[0] in PACKAGES})
    yield from imports.too_full(sources)
    yield from waits.findings(sources)
    yield from strays(paths)
    yield from scraps((path, (root / path).stat().st_size) for path in paths)
    yield from untested(paths)
    yield from misnamed(named_modules(tomllib.loads((root / "pyproject.toml").read_text())), set(paths))
    yield from code_map.findings((root / code_map.PAGE).read_text(), sources)


def write_map(root: Path) -> None:
    page = root / code_map.PAGE
    sources = {path: (root / path).read_text() for path in tracked(root) if path.endswith(".py")}
    page.write_text(code_map.with_map(page.read_text(), sources))


def main(arguments: Sequence[str]) -> int:
    """Check the tree of this file, or write its map; return the exit status."""
    if arguments == ["map"]:
        write_map(ROOT)
        return 0
    functions: list[LineCount] = []
    files: list[LineCount] = []
    counted: counts.Places = {}
    found = list(findings(ROOT, tracked(ROOT), functions, files, counted))
    for line in (*found, *counts.below(counted, counts.LIMITS)):
        print(line)
    for kind, lengths in (("functions", functions), ("files", files)):
        figures = f"{median(lengths):g} / {percentile_95(lengths)} / {max(length.lines for length in lengths)}"
        print(f"{len(lengths)} {kind}: {figures} lines (median, 95th percentile, longest)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
