"""The import check: no circle of modules at run time, none of rooms even for types, and no folder that is too full.

A room is a folder of modules. Two rooms of one folder, or a room and a module beside it, must not import each other,
not even under `TYPE_CHECKING`: a reader of one of them would have to read both. Modules may name each other's types.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

NAME: Final = "headgate"
MAX_MODULES: Final = 16
"""In one folder."""
MAX_TEST_MODULES: Final = 24
"""In one folder of tests."""
UNLIMITED: Final = ("protocol/messages", "gateway/api/handlers")
"""Folders with one module for each API."""


class Import(NamedTuple):
    """One import of ours: the names of both modules, from the top folder on."""

    importer: str
    imported: str
    line: int
    is_for_types: bool


def module_name(path: str) -> str:
    """`storage/log/log.py` -> `storage.log.log`; a package by the name of its folder."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imports(path: str, source: str, modules: Collection[str]) -> Iterator[Import]:
    """The imports of ours in one file, without those inside functions: these happen later."""
    importer = module_name(path)
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(source, path), False)]
    while waiting:
        node, is_for_types = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.ImportFrom | ast.Import):
            for name in imported_names(node):
                imported = nearest(name, modules)
                if imported is not None and imported != importer:
                    yield Import(importer, imported, node.lineno, is_for_types)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += [(child, True) for child in node.body] + [(child, is_for_types) for child in node.orelse]
        else:
            waiting += [(child, is_for_types) for child in ast.iter_child_nodes(node)]


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
    """Findings for modules that cannot be imported in every order."""
    graph = defaultdict[str, set[str]](set)
    for one in found:
        if not one.is_for_types:
            graph[one.importer].add(one.imported)
    for group in circles(graph):
        yield f"a circle of imports: {', '.join(group)}; move what both need into a module of its own"


def circles_of_rooms(found: Iterable[Import], packages: Collection[str]) -> Iterator[str]:
    """Findings for neighbours in one folder, at least one of which is a folder itself, that import each other."""
    graphs = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    examples: dict[tuple[str, str], Import] = {}
    for one in found:
        folder, importer, imported = neighbours(one.importer, one.imported)
        if importer != imported and (importer in packages or imported in packages):
            graphs[folder][importer].add(imported)
            examples.setdefault((importer, imported), one)
    for folder in sorted(graphs):
        for group in circles(graphs[folder]):
            where = [
                f"{one.importer}:{one.line} -> {one.imported}"
                for (importer, imported), one in sorted(examples.items())
                if importer in group and imported in group
            ]
            yield f"a circle of rooms in {folder or 'the top folder'}: {', '.join(group)}; {'; '.join(where)}"


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
    found = [one for path, source in ours.items() for one in imports(path, source, modules)]
    yield from circles_of_modules(found)
    yield from circles_of_rooms(found, packages)
