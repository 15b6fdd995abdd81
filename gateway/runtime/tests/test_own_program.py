"""A command of this installation as a process."""

import subprocess

import pytest

from headgate import __version__
from headgate.gateway.runtime.own_program import command_of


@pytest.mark.sockets
def test_a_command_runs_where_nothing_else_is_known() -> None:
    done = subprocess.run(command_of("--version"), capture_output=True, text=True, check=True, env={}, cwd="/")
    assert done.stdout == f"headgate {__version__}\n"
