"""`headgate acls suggest`: the rules that allow what brokers have observed, from their audit logs."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from headgate.protocol.acls import AclBinding, AclResource
from headgate.protocol.security.acls.index import AclIndex
from headgate.tools.acls.actions import ALL_RULES, describe
from headgate.tools.acls.rows import command_lines, kafka_command_lines, row_of, sort_key
from headgate.tools.acls.suggestions import (
    DEFAULT_PREFIXES,
    OBSERVED_EVENT,
    ObservedAccess,
    read_lines,
    still_refused,
    suggest,
)
from headgate.tools.acls.why import authorizer_settings, policy_of
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import CommandResult, UsageError

_SHOWN = 5


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command.add_argument("files", nargs="+", metavar="audit.log", help="headgate.audit.log of each broker; - for stdin")
    command.add_argument("--all", action="store_true", help="also what the ACLs allow by now; asks no broker")
    command.add_argument("--by-host", action="store_true", help="rules for the addresses that were seen; default: *")
    for name in ("topic", "group", "transactional-id"):
        command.add_argument(
            f"--{name}-prefix", action="append", default=[], metavar="prefix", help="one rule for all such names"
        )
    command.add_argument("--kafka-acls", action="store_true", help="lines of Kafka's own tool")


def run_suggest(cluster: Cluster | None, options: argparse.Namespace) -> CommandResult:
    """Rules as rows with `--json`, otherwise as command lines. `cluster` None: whatever the ACLs are by now.

    Raises ClientError, UsageError.
    """
    accesses, notes = _read(options)
    if cluster is not None:
        settings, more = authorizer_settings(cluster)
        index = AclIndex.empty().changed((), describe(cluster, ALL_RULES))
        notes += [note for note in more if "mode=observe" not in note]
        seen = len(accesses)
        accesses = [*still_refused(accesses, index, policy_of(settings))]
        if seen > len(accesses):
            notes.append(f"{seen - len(accesses)} of {seen} observed operations are allowed by now")
    prefixes = {**DEFAULT_PREFIXES, **_prefixes(options)}
    rules, left_out = suggest(accesses, prefixes, by_host=options.by_host)
    notes += [f"no rule is suggested for {access}: its name would be a wildcard" for access in left_out[:_SHOWN]]
    if not rules:
        return CommandResult(notes=[*notes, "no rule is missing"])
    rules = sorted(rules, key=lambda rule: (rule.principal, *sort_key(rule)))
    if options.json:
        return CommandResult([row_of(rule) for rule in rules], notes=notes)
    return CommandResult(document=_document(rules, options), notes=notes)


def _read(options: argparse.Namespace) -> tuple[list[ObservedAccess], list[str]]:
    """The accesses in all files, and notes. Raises UsageError."""
    found: dict[ObservedAccess, None] = {}
    notes = []
    for path in options.files:
        try:
            with _opened(path) as lines:  # a log of months does not fit into memory
                accesses, unreadable = read_lines(lines)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}; name the file of headgate.audit.log") from None
        found |= dict.fromkeys(accesses)
        if unreadable:
            notes.append(f"{path}: {unreadable} lines are no events of an audit log")
        if not accesses:
            notes.append(
                f"{path} has no event {OBSERVED_EVENT!r}: brokers write them with headgate.authorizer.mode=observe"
            )
    return [*found], notes


def _opened(path: str) -> AbstractContextManager[TextIO]:
    """The text of a file, or of standard input; both are UTF-8, and a torn character is no error. Raises OSError."""
    if path == "-":
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return nullcontext(sys.stdin)
    return Path(path).open(encoding="utf-8", errors="replace")


def _prefixes(options: argparse.Namespace) -> dict[AclResource, list[str]]:
    given = {
        AclResource.TOPIC: options.topic_prefix,
        AclResource.GROUP: [*options.group_prefix, *DEFAULT_PREFIXES[AclResource.GROUP]],
        AclResource.TRANSACTIONAL_ID: options.transactional_id_prefix,
    }
    for prefix in (prefix for several in given.values() for prefix in several):
        if not prefix:
            raise UsageError("an empty prefix would mean every name; write the beginning of the names")
    return given


def _document(rules: list[AclBinding], options: argparse.Namespace) -> str:
    """Command lines, principal by principal."""
    principals: defaultdict[str, list[AclBinding]] = defaultdict(list)
    for rule in rules:
        principals[rule.principal].append(rule)
    blocks = []
    for principal, own in principals.items():
        lines = kafka_command_lines(own, options.bootstrap_server) if options.kafka_acls else command_lines(own)
        blocks.append("\n".join([f"# {principal}", *lines]))
    return "\n\n".join(blocks)
