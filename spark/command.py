"""`headgate spark`: a table of subcommands; only the called one is imported.

A subcommand that needs no JVM starts none, does not import PySpark, and answers within a second. Exit codes: 0 success;
1 failure; 2 wrong usage; 3 the command found what a monitor watches for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple

MISUSED: Final = 2


class Subcommand(NamedTuple):
    """`target` is 'module:function'. The function takes the arguments after the name, and returns an exit code."""

    target: str
    summary: str


# In the order of the help: first what a session needs, then data, then positions
SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    "doctor": Subcommand("headgate.spark.doctor:main", "find what keeps Spark from working here, each with its cure"),
    "jars": Subcommand("headgate.spark.jars:main", "fetch the exact jars for the installed PySpark; print spark.jars"),
    "options": Subcommand(
        "headgate.spark.option_checks:main", "the options of the formats kafka and headgate, and tuned values"
    ),
    "init": Subcommand("headgate.spark.init:main", "a new project from a template: batch, stream, copy, pipeline"),
    "pack": Subcommand("headgate.spark.pack:main", "an archive of what executors need, for spark.archives"),
    "sample": Subcommand("headgate.spark.sample:main", "append made-up orders to a topic, to try the rest with"),
    "load": Subcommand("headgate.spark.load.command:main_load", "load topics into files or tables, once"),
    "table": Subcommand("headgate.spark.table.command:main", "keep a table of the last values of a topic by key"),
    "verify": Subcommand("headgate.spark.load.command:main_verify", "check a load: each offset is a row or a gap"),
    "lag": Subcommand("headgate.spark.positions.command:lag", "the lag of checkpoints, groups and loads"),
    "check": Subcommand("headgate.spark.positions.command:check", "before a restart: what is lost, added or made anew"),
    "offsets": Subcommand("headgate.spark.positions.command:offsets", "carry positions from one place to another"),
    "replay": Subcommand(
        "headgate.spark.pipelines.command:replay", "records of a topic or a table between two times into a topic, once"
    ),
    "mirror": Subcommand("headgate.spark.pipelines.command:mirror", "topics of one cluster in another, exactly once"),
    "mirror-groups": Subcommand(
        "headgate.spark.pipelines.command:mirror_groups", "let groups of a mirror's source go on in its target"
    ),
}


def main(arguments: Sequence[str], subcommands: Mapping[str, Subcommand] = SUBCOMMANDS) -> int:
    """Run `headgate spark <arguments>`; return the exit code."""
    name = arguments[0] if arguments else "help"
    if name in ("help", "--help", "-h"):
        print(_help(subcommands))
        return 0 if arguments else MISUSED
    subcommand = subcommands.get(name)
    if subcommand is None:
        near = get_close_matches(name, subcommands, n=1)
        nearest = f", the nearest is {near[0]}" if near else ""
        print(f"headgate spark: there is no {name!r}{nearest}; `headgate spark help` lists all", file=sys.stderr)
        return MISUSED
    module, _, function = subcommand.target.partition(":")
    run: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return run(arguments[1:])


def _help(subcommands: Mapping[str, Subcommand]) -> str:
    width = max(map(len, subcommands))
    return "\n".join(
        [
            "headgate spark: Spark over topics; docs/spark.md has examples",
            "",
            "usage: headgate spark <command> [arguments]; `headgate spark <command> --help` tells more",
            "",
            *(f"  {name.ljust(width)}  {subcommand.summary}" for name, subcommand in subcommands.items()),
        ]
    )
