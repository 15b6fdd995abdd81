"""`headgate bundle`: one archive for a report: settings masked, metrics, health, log, limits, and the doctor's rows.

It has no records and no secret: values of secrets are hidden in every file, whatever its source. Names of topics,
groups, users and hosts stay, as a report is about them. `--dry-run` lists the files and writes nothing.

Exit codes: 0 the archive is written; 1 it could not be written; 2 called wrongly.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.bundle import archive, host_files
from headgate.tools.bundle.contents import (
    Contents,
    client_settings,
    http_files,
    journal,
    log_file,
    rows_text,
    settings_text,
)
from headgate.tools.bundle.redaction import Redaction
from headgate.tools.client.client import PLAINTEXT
from headgate.tools.doctor.command import Examination, Inspectors, check_usage, make_parser, read_client_security
from headgate.tools.doctor.inspection import InspectSettings, InspectZooKeeper
from headgate.tools.output import CommandResult, Row, add_format_options, format_table, print_result

_README: Final = """\
A bundle of `headgate bundle`, made for a report about a broker.

manifest.json lists the files, and what is not here. Values of secrets are hidden; names of topics, groups, users and
hosts are not. There are no records of any topic.
"""
_MOST_MIB: Final = 1024


def main(arguments: Sequence[str], inspect_settings: InspectSettings, inspect_zookeeper: InspectZooKeeper) -> int:
    """Run `headgate bundle <arguments>`; return the exit code."""
    parser = make_parser("bundle", "Make one archive for a report: no records, no secrets.")
    parser.add_argument("--output", type=Path, metavar="file", help="default: headgate-bundle-<time>.tar.gz here")
    parser.add_argument("--log", action="append", default=[], metavar="file", help="a log of the broker: its end")
    parser.add_argument("--journal", metavar="unit", help="of systemd: the end of its journal")
    parser.add_argument(
        "--max-mib",
        type=_mebibytes,
        default=archive.MAX_BYTES >> 20,
        metavar="number",
        help="of all files; default: 32",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what the archive would have, and write nothing")
    add_format_options(parser)
    options = parser.parse_args(arguments)
    check_usage(parser, options)
    if options.dry_run:
        options.canary, options.create_canary = None, False
    result = _run(options, Inspectors(inspect_settings, inspect_zookeeper))
    return print_result("bundle", result, options, format_table)


def _mebibytes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST_MIB}")
    return int(text)


def _run(options: argparse.Namespace, inspectors: Inspectors) -> CommandResult:
    now = time.time()
    contents = collect(options, inspectors)
    files, beyond = archive.bound(contents.files, options.max_mib << 20)
    left_out = [*contents.left_out, *beyond]
    files.append(archive.manifest(files, left_out))
    rows: list[Row] = [{"file": file.name, "bytes": len(file.data), "from": file.note or None} for file in files]
    notes = [f"not in it: {sentence}" for sentence in left_out]
    if options.dry_run:
        return CommandResult(rows, notes=[*notes, "this was a dry run, nothing is written"])
    folder = time.strftime("headgate-bundle-%Y%m%dT%H%M%SZ", time.gmtime(now))
    path: Path = options.output or Path(f"{folder}.tar.gz")
    try:
        size = archive.write(path, folder, files, int(now))
    except FileExistsError:
        return CommandResult(failures=[f"{path} exists already; name another file: --output"])
    except OSError as error:
        return CommandResult(failures=[f"cannot write {path}: {error.strerror}; name another place: --output"])
    return CommandResult(rows, notes=[*notes, f"{path} has {size} bytes; read it before you send it"])


def collect(options: argparse.Namespace, inspectors: Inspectors) -> Contents:
    """All files, the most useful first."""
    examination = Examination(options, inspectors)
    findings = list(examination.rows())
    contents = Contents([archive.BundleFile("README.txt", _README.encode())], [])
    secrets = list(examination.server.report.secrets) if examination.server is not None else []
    client_text = ""
    if options.command_config:
        try:
            client_text, more = client_settings(options.command_config)
            secrets += more
        except OSError as error:
            contents.left_out.append(f"{options.command_config}: {error.strerror}")
    redact = Redaction(secrets)
    contents.files.append(archive.cut_head("doctor.jsonl", rows_text(findings, redact)))
    texts = {"versions.json": host_files.versions()}
    if examination.server is not None:
        texts["settings.txt"] = settings_text(examination.server.report)
    if client_text:
        texts["client-settings.txt"] = client_text
    if examination.host is not None:
        directories = [one.path for one in examination.host.directories]
        texts["limits.txt"] = host_files.limits(list(examination.host.holders), directories)
        if directories:
            texts["directories.txt"] = host_files.listing(directories)
    contents.files.extend(archive.cut_head(name, redact(text)) for name, text in texts.items())
    for path in options.log:
        log_file(path, redact, contents)
    if options.journal:
        journal(options.journal, redact, contents)
    security = read_client_security(options.command_config)[0] if options.command_config else PLAINTEXT
    _add_http(options, examination, security, redact, contents)
    return contents


def _add_http(
    options: argparse.Namespace,
    examination: Examination,
    security: ClientSecurity,
    redact: Redaction,
    contents: Contents,
) -> None:
    """What the brokers say over HTTP: at the named addresses, at those of the settings, and at those of the cluster."""
    addresses = [*options.http, *examination.http_addresses()]
    http_files(list(dict.fromkeys(addresses)), options.timeout, security, redact, contents)
