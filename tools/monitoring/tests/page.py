"""The page on metrics, and the metrics that an expression asks for."""

import re
from pathlib import Path

import headgate.tools

PAGE = (Path(headgate.tools.__file__).resolve().parents[1] / "docs" / "metrics.md").read_text()


def not_on_page(expressions: str) -> list[str]:
    """The metrics that are asked for and that the page lacks. A histogram adds to its name."""
    names = {name.removesuffix("_bucket") for name in re.findall(r"(?:headgate|process)_[a-z_]+", expressions)}
    assert names
    return [name for name in sorted(names) if f"`{name}`" not in PAGE]
