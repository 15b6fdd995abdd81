import ast
from pathlib import Path

import pytest

from headgate.tools.development import syntax
from headgate.tools.development.syntax import parsed, statements

EVERY_BLOCK = """
class A:
    def method(self):
        async def inner(): return [x for x in y]
if a: b = lambda: 1
else: del c
for d in e: pass
else: f = 1 if g else 2
while h: break
try: import i
except J: raise
else: k()
finally: l += 1
with m: assert n
match o:
    case [p] if q: r
    case _:
        try: s
        except* T: u
"""


@pytest.mark.parametrize("source", [EVERY_BLOCK, "", Path(syntax.__file__).read_text()])
def test_no_statement_is_missed(source: str) -> None:
    tree = ast.parse(source)
    assert list(statements(tree)) == [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def test_a_module_is_parsed_once_until_the_next_one() -> None:
    first = parsed("a.py", "a = 1")
    assert parsed("a.py", "a = 1") is first
    assert ast.unparse(parsed("b.py", "b = 2")) == "b = 2"
    assert parsed("a.py", "a = 1") is not first
    with pytest.raises(SyntaxError, match=r"c\.py"):
        parsed("c.py", "c =")
