"""Which APIs and versions each named client was answered, kept in `used.json` beside this file.

`make protocol` runs the named clients and writes it anew; the page docs/protocol.md is made from it and from what the
broker serves. By client: {"java 0.8.2.2": {"0": [0], "3": [0]}}, API keys and versions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

RECORDS: Final = os.environ.get("HEADGATE_RECORD", "") not in {"", "0"}
FILE: Final = Path(__file__).with_name("used.json")

Used = set[tuple[int, int]]


def load(file: Path = FILE) -> dict[str, Used]:
    if not file.exists():
        return {}
    kept: dict[str, dict[str, list[int]]] = json.loads(file.read_text())
    return {
        client: {(int(key), version) for key, versions in apis.items() for version in versions}
        for client, apis in kept.items()
    }


def save(used: Mapping[str, Used], file: Path = FILE) -> None:
    """A line for each client."""
    lines = (f"{json.dumps(client)}: {json.dumps(by_api(found))}" for client, found in sorted(used.items()) if found)
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def by_api(used: Used) -> dict[str, list[int]]:
    keys = sorted({key for key, _ in used})
    return {str(one): sorted(version for key, version in used if key == one) for one in keys}


def keep(used: Mapping[str, Used], file: Path = FILE) -> None:
    """Replace what is known of these clients."""
    save({**load(file), **used}, file)
