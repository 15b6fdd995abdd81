"""The import check: no circle of modules, of rooms or of folders, and no folder that is too full.

Every import counts, also within a function and under `TYPE_CHECKING`: a reader of one module of a circle has to read
all. A room is a folder of modules: two rooms of one folder, or a room and a module beside it, must not import each
other. In `LAYERED` folders a room's own modules, without its rooms, must not be in a circle with other folders either:
the top of such a folder is ground floor or roof, not both. `ALLOWED` has the exceptions, with reasons.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from headgate.tools.development.syntax import parsed, statements

NAME: Final = "headgate"
MAX_MODULES: Final = 16
"""In one folder."""
MAX_TEST_MODULES: Final = 24
"""In one folder of tests."""
UNLIMITED: Final = ("protocol/messages", "protocol/tests/unserved", "gateway/api/handlers")
"""Folders with one module for each API."""


LAYERED: Final = ("spark",)
_REPLICA: Final = "gateway.replication.replica"
_OF_REPLICA: Final = "for types: the replica makes its queues and has its disk synced, and each of them calls it back"
ALLOWED: Final[Mapping[tuple[str, str], str]] = {
    ("gateway.replication.append", _REPLICA): _OF_REPLICA,
    ("gateway.replication.append_queue", _REPLICA): _OF_REPLICA,
    ("gateway.replication.group_commit", _REPLICA): _OF_REPLICA,
}
"""Imports that may close a circle: (importer, imported) -> the reason."""


class Import(NamedTuple):
    """One import of ours: the names of both modules, from the top folder on."""

    importer: str
    imported: str
    line: int


def module_name(path: str) -> str:
    """`storage/log/log.py` -> `storage.log.log`; a package by the name of its folder."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imports(path: str, source: str, modules: Collection[str]) -> Iterator[Import]:
    importer = module_name(path)
    for node in statements(parsed(path, source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            for name in imported_names(node):
                imported = nearest(name, modules)
                if imported is not None and imported != importer:
                    yield Import(importer, imported, node.lineno)


def imported_names(node: ast.ImportFrom | ast.Import) -> Iterator[str]:
    """Dotted names without `headgate.`: `from headgate.a import b` may mean the module `a.b`, or something in `a`."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return (name.removeprefix(f"{NAME}.") for name in names if name.startswith(f"{NAME}."))


def nearest(name: str, modules: Collection[str]) -> str | None:
    """The module that a dotted name is, or is in."""
    while name:
        if name in modules:
            return name
        name = name.rpartition(".")[0]
    return None


def circles(graph: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """The groups of two or more nodes that reach each other (Tarjan's algorithm), each in order."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        numbers[node] = lowest[node] = len(numbers)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in numbers:
                yield from visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], numbers[other])
        if lowest[node] == numbers[node]:
            start = path.index(node)
            group = path[start:]
            del path[start:]
            if len(group) > 1:
                yield sorted(group)

    for node in sorted(graph):
        if node not in numbers:
            yield from visit(node)


def circles_of_modules(found: Iterable[Import]) -> Iterator[str]:
    """Findings for modules that import each other."""
    graph = defaultdict[str, set[str]](set)
    for link in found:
        graph[link.importer].add(link.imported)
    for group in circles(graph):
        yield f"a circle of imports: {', '.join(group)}; move what both need into a module of its own"


def circles_of_rooms(found: Iterable[Import], packages: Collection[str]) -> Iterator[str]:
    """Findings for neighbours in one folder, at least one of which is a folder itself, that import each other."""
    links = defaultdict[str, dict[tuple[str, str], Import]](dict)
    for link in found:
        folder, importer, imported = neighbours(link.importer, link.imported)
        if importer in packages or imported in packages:
            links[folder].setdefault((importer, imported), link)
    for folder in sorted(links):
        for circle in explained(links[folder]):
            yield f"a circle of rooms in {folder or 'the top folder'}: {circle}"


def circles_of_folders(found: Iterable[Import], packages: Collection[str]) -> Iterator[str]:
    """Findings for folders in `LAYERED` ones whose own modules import each other."""
    links: dict[tuple[str, str], Import] = {}
    for link in found:
        importer, imported = (name if name in packages else name.rpartition(".")[0] for name in link[:2])
        if importer.split(".")[0] in LAYERED and imported.split(".")[0] in LAYERED:
            links.setdefault((importer, imported), link)
    for circle in explained(links):
        yield f"a circle of folders: {circle}"


def explained(links: Mapping[tuple[str, str], Import]) -> Iterator[str]:
    """The circles of (importer, imported), each with an import for each link."""
    graph = defaultdict[str, set[str]](set)
    for importer, imported in links:
        if importer != imported:
            graph[importer].add(imported)
    for group in circles(graph):
        where = [
            f"{link.importer}:{link.line} -> {link.imported}"
            for pair, link in sorted(links.items())
            if pair[0] != pair[1] and set(pair) <= set(group)
        ]
        yield f"{', '.join(group)}; {'; '.join(where)}"


def neighbours(one: str, other: str) -> tuple[str, str, str]:
    """The innermost folder that both modules are in, and what each of them is in there: a module or a folder."""
    ours, theirs = one.split("."), other.split(".")
    depth = 0
    while depth < min(len(ours), len(theirs)) - 1 and ours[depth] == theirs[depth]:
        depth += 1
    return ".".join(ours[:depth]), ".".join(ours[: depth + 1]), ".".join(theirs[: depth + 1])


def too_full(paths: Iterable[str]) -> Iterator[str]:
    """Findings for folders with more modules than a reader can survey, tests included."""
    counts = defaultdict[str, int](int)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name not in {"__init__.py", "conftest.py"} and folder not in UNLIMITED:
            counts[folder] += 1
    for folder, count in sorted(counts.items()):
        is_of_tests = folder.startswith("compat_tests") or "tests" in folder.split("/")
        limit = MAX_TEST_MODULES if is_of_tests else MAX_MODULES
        if count > limit:
            yield f"{folder} has {count} modules, over {limit}; make a room of some of them"


def findings(sources: Mapping[str, str]) -> Iterator[str]:
    """All findings for the modules of ours: path -> source. Tests are left out."""
    ours = {path: source for path, source in sources.items() if "/tests/" not in path and path.endswith(".py")}
    modules = {module_name(path) for path in ours}
    packages = {module_name(path) for path in ours if path.endswith("/__init__.py")}
    found = [link for path, source in ours.items() for link in imports(path, source, modules)]
    for importer, imported in sorted(ALLOWED.keys() - {link[:2] for link in found}):
        if importer in modules:
            yield f"imports.py allows {importer} -> {imported}, which is gone: take it out of ALLOWED"
    counted = [link for link in found if link[:2] not in ALLOWED]
    yield from circles_of_modules(counted)
    yield from circles_of_rooms(counted, packages)
    yield from circles_of_folders(counted, packages)
