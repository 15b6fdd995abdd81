"""The tidy check: budgets and habits that no linter knows. `make tidy`, a part of `make check`.

Functions: median at most 10 lines, 95th percentile 50, none over 70; files: median about 120, 95th percentile 450,
none over 700. Each module has its own test file. What pyproject.toml names exists, or is in PLANNED. The map in
docs/architecture.md names every module of the broker, and nothing else. Our packages are imported by the one name that
they have when installed. Only a log itself changes a log. Lock files name no place. Nothing lies about that a run by
hand has left.
Prints every finding with what to do, then the figures; exit status 1 if there was a finding.
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

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("protocol", "storage", "gateway", "tools", "spark")

FUNCTION_MEDIAN, FUNCTION_95TH, FUNCTION_LONGEST = 10, 50, 70
FILE_MEDIAN, FILE_95TH, FILE_LONGEST = 150, 450, 700

# Named in pyproject.toml because the architecture has settled them, not built yet; a name leaves when it exists
PLANNED: Final = frozenset(
    {
        "gateway.replication.follower",
        "gateway.zookeeper",
        "gateway.zookeeper.client",
    }
)

MAPPED: Final = ("protocol", "storage", "gateway")

# Modules that another file tests, as patterns of paths
TESTED_ELSEWHERE: Final = (
    "*/__init__.py",
    "*/__main__.py",
    "*/conftest.py",
    "gateway/config/*",  # tables, through gateway/tests/test_config*.py
    "gateway/api/handlers/*",  # through the wire, with dispatch around them
    "protocol/messages/*",  # property tests take every message of the registry
    "tools/bench/*",  # its tests are tools/tests/test_bench_*.py
)

# What lies in the top folder, whatever its kind: all else there was left by accident
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
# Whatever is smaller says nothing: a process id, an empty file that a redirection made
SMALLEST_BYTES: Final = 16

# What a `storage.log.log.Log` is called
LOG_NAMES: Final = ("log", "_log")

# A place of one machine or of one network; a lock file or a page that names it is wrong elsewhere
PLACES: Final = re.compile(r"--(?:extra-)?index-url|--find-links|file://|/(?:root|home)/|/tmp/")


@dataclass(frozen=True)
class Length:
    """A function or a file and its number of lines."""

    where: str
    lines: int


def function_lengths(path: str, source: str) -> Iterator[Length]:
    """Every function of a file, nested ones too, from `def` to its last line."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Length(f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)


def percentile_95(lengths: Sequence[Length]) -> int:
    ordered = sorted(length.lines for length in lengths)
    return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0


def median(lengths: Sequence[Length]) -> float:
    return statistics.median(length.lines for length in lengths) if lengths else 0


def over_budget(kind: str, lengths: Sequence[Length], limits: tuple[int, int, int]) -> Iterator[str]:
    """Findings for (median, 95th percentile, longest)."""
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
    """Modules without <package>/tests/test_<module>.py, or such a file in a package above."""
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
    """Where the tests of a module may be, the best place first."""
    *folders, name = parts
    found = [f"{'/'.join(folders)}/tests/test_{name}"]
    for depth in range(len(folders) - 1, 0, -1):
        found.append(f"{'/'.join(folders[:depth])}/tests/test_{'_'.join(folders[depth:])}_{name}")
        found.append(f"{'/'.join(folders[:depth])}/tests/test_{name}")
    return found


def named_modules(project: dict[str, Any]) -> set[str]:
    """Every module of ours that the import contracts and the lint exceptions of pyproject.toml name."""
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
    """Names of pyproject.toml that protect nothing, and planned names that exist by now."""
    for name in sorted(names):
        if not exists(name, paths) and name not in PLANNED:
            yield f"pyproject.toml names {name}, which does not exist; correct it, or add it to PLANNED in tidy.py"
    for name in sorted(PLANNED):
        if exists(name, paths):
            yield f"{name} exists by now: take it out of PLANNED in tidy.py"


def mapped(page: str) -> set[str]:
    """What the first column of the map names: files, and folders with a slash; `b.py` behind `a/x.py` is `a/b.py`."""
    named: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        folder = first.rpartition("/")[0]
        named |= {first, *(f"{folder}/{name}" for name in others)}
    return {name for name in named if name.startswith(tuple(f"{package}/" for package in MAPPED))}


def unmapped(page: str, paths: Iterable[str]) -> Iterator[str]:
    """Modules that the map lacks, and names in it that do not exist."""
    named = mapped(page)
    folders = tuple(name for name in named if name.endswith("/") and name.count("/") > 1)
    modules = [path for path in paths if path.endswith(".py") and path.startswith(tuple(f"{one}/" for one in MAPPED))]
    for name in sorted(named):
        if not any(module == name or module.startswith(name.rstrip("/") + "/") for module in modules):
            yield f"docs/architecture.md: the map names {name}, which does not exist; correct it"
    for module in modules:
        is_small = module.endswith(("/__init__.py", "/__main__.py", "/conftest.py"))
        if not (module in named or is_small or "/tests/" in module or module.startswith(folders)):
            yield f"{module} is not in the map of docs/architecture.md; add it with what it is for"


def strays(paths: Iterable[str]) -> Iterator[str]:
    """Files and folders in the top folder that nobody knows."""
    for name in sorted({path.split("/")[0] for path in paths} - TOP):
        yield f"{name} is not known in the top folder; remove it, or add it to TOP in tidy.py"


def scraps(sizes: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Files with hardly a byte in them, but those that make a folder a package."""
    for path, size in sizes:
        if size < SMALLEST_BYTES and not path.endswith("__init__.py"):
            yield f"{path} has {size} bytes: remove it; what is so small was left by accident"


def places(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := PLACES.search(line):
            yield f"{path}:{number}: names a place of one machine or network: {found.group()}"


def old_imports(path: str, source: str) -> Iterator[str]:
    """Imports of a package by the name of its folder: installed, it has none but `headgate`."""
    for node in ast.walk(ast.parse(source, path)):
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
    """Assignments to an attribute of something called `log`. The log's own modules say `self`."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            log = log_of(node.value)
            if log:
                yield f"{path}:{node.lineno}: changes {ast.unparse(node)}; only {log} itself does that: ask it to"


def log_of(value: ast.expr) -> str:
    """What in an expression is called a log: `log`, `self._log` or `partition.log`; "" if nothing is."""
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
    """Paths of the tree that git knows, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(path for path in set(listing) if (root / path).is_file())


def findings(root: Path, paths: list[str], functions: list[Length], files: list[Length]) -> Iterator[str]:
    """All of them; fills the two lists on the way."""
    for path in paths:
        if path.endswith(".py"):
            source = (root / path).read_text()
            functions += function_lengths(path, source)
            files.append(Length(path, source.count("\n")))
            yield from silenced_seams(path, source)
            yield from old_imports(path, source)
            if path.startswith(("storage/", "gateway/")) and "/tests/" not in path:
                yield from changed_logs(path, source)
        elif path.startswith("requirements/"):
            yield from places(path, (root / path).read_text())
    yield from over_budget("function", functions, (FUNCTION_MEDIAN, FUNCTION_95TH, FUNCTION_LONGEST))
    yield from over_budget("file", files, (FILE_MEDIAN, FILE_95TH, FILE_LONGEST))
    yield from strays(paths)
    yield from scraps((path, (root / path).stat().st_size) for path in paths)
    yield from untested(paths)
    yield from misnamed(named_modules(tomllib.loads((root / "pyproject.toml").read_text())), set(paths))
    yield from unmapped((root / "docs/architecture.md").read_text(), paths)


def main() -> int:
    """Check the tree that this file is in."""
    functions: list[Length] = []
    files: list[Length] = []
    found = list(findings(ROOT, tracked(ROOT), functions, files))
    for finding in found:
        print(finding)
    for kind, lengths in (("functions", functions), ("files", files)):
        figures = f"{median(lengths):g} / {percentile_95(lengths)} / {max(length.lines for length in lengths)}"
        print(f"{len(lengths)} {kind}: {figures} lines (median, 95th percentile, longest)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
