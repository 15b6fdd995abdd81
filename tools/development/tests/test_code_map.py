from __future__ import annotations

from headgate.tools.development.code_map import BEGIN, END, PAGE, code_map, findings, with_map

TREE = {
    "storage/__init__.py": '"""The store."""\n',
    "storage/log/__init__.py": '"""One log."""\n',
    "storage/log/log.py": '"""A log: append, read.\n\nMore.\n"""\n',
    "storage/log/conftest.py": '"""Fixtures."""\n',
    "storage/log/tests/test_log.py": "",
    "protocol/messages/__init__.py": '"""One module for each API."""\n',
    "protocol/messages/fetch.py": '"""Fetch."""\n',
    "compat_tests/__init__.py": '"""Clients."""\n',
    "compat_tests/broker.py": '"""A broker."""\n',
    "compat_tests/test_kcat.py": '"""kcat."""\n',
    "src/headgate/__init__.py": '"""Headgate."""\n',
}
MAP = """\
### `protocol/messages/`

One module for each API.

### `storage/`

The store.

### `storage/log/`

One log.

- `log.py`: A log: append, read

### `compat_tests/`

Clients.

- `broker.py`: A broker
"""
PAGE_OF_TREE = f"# Page\n\n{BEGIN}\n{MAP}\n{END}\nMore.\n"


def test_rooms_have_their_modules_without_tests() -> None:
    assert code_map(TREE) == MAP


def test_a_long_line_is_wrapped_below_its_text() -> None:
    lines = code_map({"tools/a.py": f'"""{"word " * 40}"""\n'}).splitlines()
    assert max(map(len, lines)) <= 120
    assert [line[:6] for line in lines if "word" in line] == ["- `a.p", "  word"]


def test_the_text_around_the_map_stays() -> None:
    assert with_map(f"# Page\n\n{BEGIN}gone.py\n{END}\nMore.\n", TREE) == PAGE_OF_TREE


def test_a_page_with_another_map_is_a_finding() -> None:
    assert list(findings(PAGE_OF_TREE, TREE)) == []
    (finding,) = findings(PAGE_OF_TREE, {**TREE, "storage/log/index.py": '"""An index."""\n'})
    assert finding == f"{PAGE}: the map differs from the heads of the modules: `make map` writes it"
