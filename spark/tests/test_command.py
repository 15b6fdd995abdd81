"""The table of subcommands: each target exists, and importing it brings no PySpark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from headgate.spark.command import SUBCOMMANDS, Subcommand, main

TABLE = {"echo": Subcommand("headgate.spark.tests.test_command:echo", "print the arguments")}
# Imports every target in a process of its own, and prints which heavy packages came with it
IMPORTS = """
import sys
from importlib import import_module
from headgate.spark.command import SUBCOMMANDS
for subcommand in SUBCOMMANDS.values():
    module, _, function = subcommand.target.partition(":")
    assert callable(getattr(import_module(module), function)), subcommand.target
print(*({"pyspark", "numpy", "pyarrow", "pandas", "matplotlib"} & set(sys.modules)))
"""


def echo(arguments: Sequence[str]) -> int:
    print(*arguments)
    return 3


def test_the_called_function_gets_the_other_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["echo", "a", "--b"], TABLE) == 3
    assert capsys.readouterr().out == "a --b\n"


def test_an_unknown_name_hears_of_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ecko"], TABLE) == 2
    assert "there is no 'ecko', the nearest is echo" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, code", [([], 2), (["help"], 0), (["--help"], 0)])
def test_help_lists_all(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    assert set(SUBCOMMANDS) <= set(capsys.readouterr().out.split())


@pytest.mark.sockets
def test_every_target_exists_and_brings_no_pyspark() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
