"""A broker with ACLs, and `headgate acls` run against it."""

from __future__ import annotations

import pytest

from headgate.tools import output
from headgate.tools.acls import command
from headgate.tools.acls.tests.acl_broker import AclBroker
from headgate.tools.tests.command_output import CommandOutput, Run


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> AclBroker:
    """A broker without ACLs, in place of every cluster."""
    broker = AclBroker()
    monkeypatch.setattr(output, "Cluster", broker)
    return broker


@pytest.fixture
def run(broker: AclBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `headgate acls`."""

    def run_command(*arguments: str) -> CommandOutput:
        code = command.main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command
