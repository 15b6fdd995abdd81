"""The options of the command about schemas are checked at the start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.tools.console.messages import schema_options
from headgate.tools.console.messages.schema_options import SchemaOptions


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    schema_options.use(None, None)


def test_options_hold_for_the_process(tmp_path: Path) -> None:
    schema_options.use(str(tmp_path), None)
    assert schema_options.current() == SchemaOptions(str(tmp_path))
    schema_options.use("http://127.0.0.1:8081", None)  # a registry that is down is no mistake of the command
    assert schema_options.current().schemas == "http://127.0.0.1:8081"


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--schemas: .* is neither a folder"):
        schema_options.use(str(tmp_path / "none"), None)
    with pytest.raises(ValueError, match=r"--descriptor-set: .* cannot be read"):
        schema_options.use(None, str(tmp_path / "none"))
    assert schema_options.current() == SchemaOptions()
