"""docs/protocol.md tells the truth about versions and handlers. Made by `python -m compat_tests.matrix.protocol`."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.gateway.api import handler_registration
from headgate.gateway.api.context import Handler
from headgate.protocol import registry

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?:-(\d+))? \| (.*?) \| .* \|$", re.MULTILINE)


def test_the_page_lists_every_api_with_versions_and_handler() -> None:
    told = {
        int(key): (name, int(first), int(last or first), set(re.findall(r"`([^`]+)`", files)))
        for key, name, first, last, files in ROW.findall(PAGE.read_text())
    }
    registered = {
        key: (
            registry.APIS[key].name,
            one.served_min,
            one.served_max,
            {file_of(served.handler) for served in one.ranges},
        )
        for key, one in handler_registration.load().items()
    }
    assert told == registered, "run `python -m compat_tests.matrix.protocol`"


def file_of(handler: Handler) -> str:
    return f"{handler.__module__.removeprefix('headgate.').replace('.', '/')}.py"
