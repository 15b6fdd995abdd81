"""The syntax trees of modules, parsed once for the checks that follow each other, and their statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


@lru_cache(maxsize=1)
def parsed(path: str, source: str) -> ast.Module:
    """The tree of a module; that of the last one is kept."""
    return ast.parse(source, path)


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All statements, nested ones too: most nodes of a tree are expressions, and `ast.walk` visits these as well."""
    found: list[ast.AST] = [tree]
    for node in found:  # which grows meanwhile
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            found += getattr(node, name, ())
        if isinstance(node, ast.stmt):
            yield node
