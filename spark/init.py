"""`headgate spark init`: a new folder with a job that runs as it is, made from a template."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from headgate.tools.client.security_option import client_security
from headgate.tools.output import CommandResult, format_table, print_result

TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_SUFFIX: Final = ".template"
# Name -> (summary, how to run it)
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "batch": ("read a topic once", "python job.py"),
    "stream": ("append a topic to files, run by run", "python job.py"),
    "copy": (
        "a topic into another one, each record exactly once",
        "headgate topics create $topic-returned --partitions 4 --bootstrap-server $bootstrap$option; python job.py",
    ),
    "pipeline": (
        "Declarative Pipelines: tables of a topic",
        'spark-pipelines --jars "$$(headgate spark jars)" --conf spark.sql.catalogImplementation=hive run',
    ),
}
# Of a topic's name, and of what stands between quotes in the templates
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_BOOTSTRAP: Final = re.compile(r"[a-zA-Z0-9._:,\[\]-]+")


class TemplateRefused(Exception):
    """The project cannot be made; the text says why."""


def create(folder: Path, kind: str, bootstrap: str, topic: str, command_config: str | None = None) -> list[Path]:
    """Make the project in a new or empty folder; return the paths of its files. Raises TemplateRefused.

    `command_config`: the file of Kafka's client properties that the job reads at each start.
    """
    if not _TOPIC.fullmatch(topic):
        raise TemplateRefused(f"{topic!r} is no name of a topic")
    if not _BOOTSTRAP.fullmatch(bootstrap):
        raise TemplateRefused(f"{bootstrap!r} is no address of a broker; write host:port")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TemplateRefused(f"{folder} exists and is not empty: name another folder")
    place = folder.absolute()
    words = {
        "name": re.sub(r"[^a-zA-Z0-9_-]", "-", place.name),
        "bootstrap": bootstrap,
        "topic": topic,
        "table": re.sub(r"[^a-z0-9_]", "_", topic.lower()),
        "folder_uri": place.as_uri(),
        "config": repr(command_config),
        "option": _option(command_config),
    }
    made = []
    for source in sorted((TEMPLATES / kind).rglob(f"*{_SUFFIX}")):
        target = place / source.relative_to(TEMPLATES / kind).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text()).substitute(words))
        made.append(target)
    return made


def _option(command_config: str | None) -> str:
    """The option of `headgate topics`; one line, as it stands in a text of a template too."""
    return "" if command_config is None else f" --command-config {shlex.quote(command_config)}"


def _config(text: str) -> str:
    """The absolute path of a file that can be used."""
    client_security(text)
    path = str(Path(text).absolute())
    if not path.isprintable() or any(sign in path for sign in "\\\"'$"):
        raise argparse.ArgumentTypeError(f"{text!r} has signs that a job's text cannot have: move the file")
    return path


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark init <arguments>`; return the exit code."""
    kinds = "; ".join(f"{name}: {summary}" for name, (summary, _) in KINDS.items())
    parser = argparse.ArgumentParser(prog="headgate spark init", description=f"Make a new project. Templates: {kinds}.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--template", choices=KINDS, default="stream", help="default: stream")
    parser.add_argument("--topic", default="orders", help="default: orders")
    parser.add_argument(
        "--bootstrap-server", default="127.0.0.1:9092", metavar="host:port", help="default: 127.0.0.1:9092"
    )
    parser.add_argument(
        "--command-config",
        metavar="file",
        type=_config,
        help="Kafka's client properties; the job reads them at each start",
    )
    options = parser.parse_args(arguments)
    config = options.command_config
    try:
        made = create(options.folder, options.template, options.bootstrap_server, options.topic, config)
        words = {"topic": options.topic, "bootstrap": options.bootstrap_server, "option": _option(config)}
        how = Template(KINDS[options.template][1]).substitute(words)
        result = CommandResult(document="\n".join(map(str, made)), notes=[f"run it: cd {options.folder}; {how}"])
    except (TemplateRefused, OSError) as error:
        result = CommandResult(failures=[str(error)])
    return print_result("spark init", result, options, format_table)
