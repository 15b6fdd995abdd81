"""The words that start a command of this installation as another process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import headgate

# Isolated mode ignores the environment and the current directory, so the program gets the path of this package.
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from headgate.gateway.app.cli import main; sys.exit(main())"
)


def command_of(*arguments: str) -> list[str]:
    """The words that start `headgate <arguments>` with this interpreter, isolated."""
    root = str(Path(headgate.__file__).resolve().parents[1])
    return [sys.executable, "-I", "-c", _PROGRAM, root, *arguments]
