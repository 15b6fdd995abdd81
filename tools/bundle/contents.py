"""The files of a bundle, the most useful first, and a sentence about each source that gave none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from headgate.protocol.properties import MalformedProperties, parse
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.bundle.archive import MAX_FILE_BYTES, BundleFile, cut_head, cut_tail
from headgate.tools.bundle.redaction import HIDDEN, Redaction, is_secret_name
from headgate.tools.client.client import PLAINTEXT, ClientError, parse_addresses
from headgate.tools.doctor.check_result import CheckResult
from headgate.tools.doctor.inspection import SettingsReport
from headgate.tools.metrics import ReadError, read

RESOURCES: Final = (
    "/readyz",
    "/v1/broker.json",
    "/v1/lag.json",
    "/v1/connections.json",
    "/v1/census.json",
    "/metrics",
)
_FILES: Final = {"/readyz": "readyz.json", "/metrics": "metrics.txt"}
_STATUSES: Final = (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
_JOURNAL_LINES: Final = 20_000
_JOURNAL_LIMIT_S: Final = 30


class Contents(NamedTuple):
    """Files, and the sources that gave none."""

    files: list[BundleFile]
    left_out: list[str]


def rows_text(rows: Sequence[CheckResult], redact: Redaction) -> str:
    """The rows of the doctor as JSON lines."""
    return "".join(
        json.dumps({name: redact(value) or None for name, value in row._asdict().items()}) + "\n" for row in rows
    )


def settings_text(report: SettingsReport) -> str:
    """The settings with secrets masked, then what `headgate config` says about them."""
    lines = [f"{name}={value}" for name, value in report.given]
    lines += [f"# problem: {problem}" for problem in report.problems]
    lines += [f"# {sentence}" for _, sentence in report.notes]
    return "\n".join(lines) + "\n"


def client_settings(path: str) -> tuple[str, list[str]]:
    """The lines of a file of client properties, masked, and its secrets. Raises OSError."""
    try:
        entries = parse(Path(path).read_bytes()[:MAX_FILE_BYTES].decode("utf-8", "replace"))
        pairs = [(entry.name, entry.value) for entry in entries]
    except MalformedProperties as error:
        return f"# {error}\n", []
    lines = [f"{name}={HIDDEN if is_secret_name(name) else value}" for name, value in pairs]
    return "\n".join(lines) + "\n", [value for name, value in pairs if is_secret_name(name)]


def http_files(
    addresses: Sequence[str], timeout_s: float, security: ClientSecurity, redact: Redaction, contents: Contents
) -> None:
    """Append what each broker says over HTTP."""
    for number, address in enumerate(addresses):
        for file in _resources(number, address, timeout_s, security, redact):
            if isinstance(file, BundleFile):
                contents.files.append(file)
            else:
                contents.left_out.append(file)


def _resources(
    number: int, address: str, timeout_s: float, security: ClientSecurity, redact: Redaction
) -> Iterator[BundleFile | str]:
    scheme, _, place = address.rpartition("://")
    used = security if scheme == "https" else PLAINTEXT
    for path in RESOURCES:
        name = f"http-{number}/{_FILES.get(path, path.rpartition('/')[2])}"
        try:
            host, port = parse_addresses(place)[0]
            text = read(host, port, timeout_s, used, path=path, accepted=_STATUSES)
        except (ReadError, ClientError) as error:
            yield f"{address}{path}: {redact(str(error))}"
            if path == RESOURCES[0]:
                return
            continue
        yield cut_head(name, redact.json(text) if name.endswith(".json") else redact(text), f"{address}{path}")


def log_file(path: str, redact: Redaction, contents: Contents) -> None:
    """Append the end of a log."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            begin = max(0, size - MAX_FILE_BYTES)
            file.seek(begin)
            text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        contents.left_out.append(f"{path}: {error.strerror}")
        return
    if begin:
        text = text.partition("\n")[2]  # a part of a line may be the end of a secret
    number = sum(file.name.startswith("log-") for file in contents.files)
    contents.files.append(cut_tail(f"log-{number}.txt", redact(text), f"the end of {redact(path)}, of {size} bytes"))


def journal(unit: str, redact: Redaction, contents: Contents) -> None:
    """Append the end of the journal of a systemd unit."""
    command = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={_JOURNAL_LINES}", f"--unit={unit}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_JOURNAL_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        contents.left_out.append(f"the journal of {unit}: {type(error).__name__}")
        return
    text = redact(done.stdout.decode("utf-8", "replace"))
    contents.files.append(cut_tail("journal.txt", text, f"journalctl --unit={unit}"))
