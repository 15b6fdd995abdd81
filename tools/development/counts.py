"""Counts that may only fall: type names with several homes, untyped results, flags, a private language, private looks.

`LIMITS` has the limit of each count. The tidy check fails for a count above its limit, and asks to lower the limit of a
smaller count. This prints the counts with the places that they include, of all whose names have the argument in them:

    python -m headgate.tools.development.counts "several homes"
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from headgate.tools.development.syntax import parsed

LIMITS: Final[dict[str, int]] = {
    "functions of gateway that return Any": 16,
    "objects with three flags": 1,
    "private language in storage/log": 3,
    "private looks of tests": 35,
    "type names with several homes": 25,
}
"""A count that is missing here must be 0."""

_PACKAGES: Final = ("protocol", "storage", "gateway", "tools", "spark")
_TEST: Final = re.compile(rf"(?:{'|'.join(_PACKAGES)})/(?:.*/)?tests/.*\.py")
_PRIVATE_NAME: Final = re.compile(
    r"^[ ]{,4}(?:async )?(?:def |class )?(_[A-Za-z]\w*)|self\.(_[A-Za-z]\w*)", re.MULTILINE
)
_PRIVATE_LOOK: Final = re.compile(
    r"(?<!\bself)(?<!\bcls)(?<!super\(\))\.(_[A-Za-z]\w*)"
    r"|(?:setattr|object)\(\s*[^\"\n]*\s*\"(?:[\w.]*\.)?(_[A-Za-z]\w*)\""
    r"|^from headgate\.\S+ import (?:\([^)]*\W|.*\W)?(_[A-Za-z]\w*)",
    re.MULTILINE,
)
_PRODUCT: Final = re.compile(rf"(?!.*/tests/|(?:tools|spark)/bench/)(?:{'|'.join(_PACKAGES)})/.*\.py")
# Kafka's definitions give the same name to parts of many messages
_NAMED_BY_KAFKA: Final = "protocol/messages/"
_TOO_MANY_FLAGS: Final = 3
# Words that are no subjects of a sentence, and verbs that hide the field's term
_PRIVATE_LANGUAGE: Final = re.compile(
    r"\b(?:whoever|nobody|somebody|everybody|anew|any more|tells?|told|hears?|heard|take[sn]? up|took up)\b"
    r"|(?:^|[.:;,]\s)what (?:who|is|was|has|had|are|of|others|they|fails|cannot)\b",
    re.IGNORECASE,
)

Places = dict[str, list[str]]
"""Count -> the places that it includes."""


def count(sources: Mapping[str, str]) -> Places:
    """All counts. `sources`: path -> text."""
    places, homes = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    tests = {path: source for path, source in sources.items() if _TEST.fullmatch(path)}
    private = private_names(sources[path] for path in sources.keys() - tests if path.startswith(_PACKAGES))
    for path, source in tests.items():
        places["private looks of tests"] += [f"{path}:{look}" for look in private_looks(source, private)]
    for path, source in sources.items():
        if not _PRODUCT.fullmatch(path):
            continue
        tree = parsed(path, source)
        nodes = list(ast.walk(tree))
        room = "/".join(path.split("/")[: min(2, path.count("/"))])
        places[f"private language in {room}"] += [f"{path}:{place}" for place in private_language(nodes, source)]
        places["objects with three flags"] += [f"{path}:{place}" for place in flags(nodes)]
        if path.startswith("gateway/"):
            places["functions of gateway that return Any"] += [f"{path}:{place}" for place in untyped_results(nodes)]
        if not path.startswith(_NAMED_BY_KAFKA):
            for name, line in public_types(tree):
                homes[name].append(f"{path}:{line}")
    several = [f"{name}: {', '.join(found)}" for name, found in sorted(homes.items()) if len(found) > 1]
    places["type names with several homes"] = several
    return {name: found for name, found in places.items() if found}


def public_types(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names and lines of a module's public classes and type aliases."""
    for node in tree.body:
        name = ""
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            name = ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name):
            name = ast.unparse(node.targets[0])
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
            yield name, node.lineno


def untyped_results(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The functions that return Any."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(node.returns, ast.Name):
            yield from [f"{node.lineno} {node.name}"] if node.returns.id == "Any" else []


def flags(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The constructors that set three booleans or more: together the booleans are a state without a name."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names = [name for statement in ast.walk(node) for name in _flags_set(statement)]
            if len(names) >= _TOO_MANY_FLAGS:
                yield f"{node.lineno} {', '.join(names)}"


def private_names(product: Iterable[str]) -> set[str]:
    """The private names of functions, classes, attributes and constants, without those of named tuples."""
    names = {name for source in product for found in _PRIVATE_NAME.findall(source) for name in found}
    return names - {"", "_asdict", "_fields", "_replace"}


def private_looks(source: str, private: Collection[str]) -> Iterator[str]:
    """The uses of private names of the product in a test: attributes, imports, and strings in setattr()."""
    for found in _PRIVATE_LOOK.finditer(source):
        name = next(filter(None, found.groups()))
        if name in private:
            yield f"{source.count(chr(10), 0, found.end()) + 1} {name}"


def _flags_set(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from map(ast.unparse, targets if isinstance(node.value.value, bool) else ())


def private_language(nodes: Iterable[ast.AST], source: str) -> Iterator[str]:
    """The words of a private language in docstrings and comments."""
    for line, text in _prose(nodes, source):
        for found in _PRIVATE_LANGUAGE.finditer(text):
            yield f"{line + text.count(chr(10), 0, found.start())} {found.group()}"


def _prose(nodes: Iterable[ast.AST], source: str) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for line, text in enumerate(source.splitlines(), 1):
        comment = re.search(r"(?:^|\s)# (.*)", text)
        if comment and "noqa" not in text:
            yield line, comment[1]


def above(found: Places, limits: Mapping[str, int]) -> Iterator[str]:
    """Findings about counts above their limits."""
    for name, places in found.items():
        if len(places) > limits.get(name, 0):
            command = f'python -m headgate.tools.development.counts "{name}"'
            yield f"{name}: {len(places)}, over the limit of {limits.get(name, 0)}; `{command}` prints the places"


def below(found: Places, limits: Mapping[str, int]) -> Iterator[str]:
    """Requests to lower limits."""
    for name, limit in limits.items():
        if len(found.get(name, ())) < limit:
            yield f"{name}: {len(found.get(name, ()))}; lower the limit of {limit} in counts.py"


def main(arguments: Sequence[str]) -> int:
    """Print the counts whose names have the argument in them, with their places."""
    root = Path(__file__).resolve().parents[2]
    paths = [path for package in _PACKAGES for path in sorted((root / package).rglob("*.py"))]
    found = count({str(path.relative_to(root)): path.read_text() for path in paths})
    for name, places in sorted(found.items()):
        if not arguments or arguments[0] in name:
            print(f'    "{name}": {len(places)},', *(places if arguments else ()), sep="\n        ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
