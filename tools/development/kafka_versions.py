"""Makes the table `protocol/census/kafka_versions.py` of the message definitions in Kafka's Java clients.

    mvn dependency:copy -Dartifact=org.apache.kafka:kafka-clients:4.4.0 -DoutputDirectory=jars
    python -m headgate.tools.development.kafka_versions jars/kafka-clients-4.4.0.jar ...

Releases of the table whose jars are not named stay as they are. The jar of a patch release stands for its minor
release, 4.0.2 for 4.0, unless `OWN_ROWS` names it: 4.0.0 refuses versions of JoinGroup that 4.0.1 serves again.

The definitions are in jars since 2.3. A release serves the versions that its definition of the request calls valid,
without a last one that is called unstable.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headgate.protocol import registry
from headgate.protocol.census import kafka_versions
from headgate.protocol.schema import Versions

TABLE: Final = Path(kafka_versions.__file__).resolve()
BEGIN, END = "# The table\n", "# The end of the table\n"
OWN_ROWS: Final = frozenset({"4.0.0"})
_JAR: Final = re.compile(r"kafka-clients-((\d+\.\d+)\.\d+)\.jar")

ReleaseVersions = Mapping[int, Versions]
"""The versions of one release by API key."""


def release_of(jar: Path) -> str:
    """The release that a jar stands for. Raises ValueError."""
    match = _JAR.fullmatch(jar.name)
    if match is None:
        raise ValueError(f"{jar} is no kafka-clients-x.y.z.jar")
    patch, minor = match.groups()
    return patch if patch in OWN_ROWS else minor


def versions_in(jar: Path) -> ReleaseVersions:
    """The versions of each API that Headgate knows by name, of the definitions in a jar. Raises OSError, ValueError."""
    found: dict[int, Versions] = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+Request\.json", name):
                defined = _definition(archive.read(name).decode())
                api_key, versions = defined["apiKey"], Versions.parse(defined["validVersions"])
                if defined.get("latestVersionUnstable"):
                    versions = Versions(versions.first, versions.last - 1)
                if api_key in registry.APIS and versions.first <= versions.last:
                    found[api_key] = versions
    return found


def _definition(text: str) -> dict[str, Any]:
    """A definition from its file: JSON with lines of comments; one of 2.8 has a brace too many at its end."""
    without = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE).strip()
    definition: dict[str, Any]
    definition, _ = json.JSONDecoder().raw_decode(without)
    return definition


def in_order(releases: Iterable[str]) -> list[str]:
    """4.0.0 before 4.0, which stands for the last patch of 4.0."""
    return sorted(releases, key=lambda release: [*map(int, release.split(".")), 1 << 30][:3])


def table_text(releases: Mapping[str, ReleaseVersions]) -> str:
    """The lines of the table: the names of the releases, and for each API the releases that changed its versions."""
    names = in_order(releases)
    lines = [f"_RELEASES: Final = {_wrapped(names)}", "_CHANGES: Final[dict[int, str]] = {"]
    for api_key in sorted({key for versions in releases.values() for key in versions}):
        changes, before = [], None
        for name in names:
            versions = releases[name].get(api_key)
            if versions != before:
                changes.append(f"{name}:{'none' if versions is None else versions}")
            before = versions
        lines += [f"    # {registry.APIS[api_key].name}", f"    {api_key}: {_wrapped(changes)},"]
    return "\n".join([*lines, "}"]) + "\n"


def _wrapped(words: Sequence[str]) -> str:
    """Words as one string, in lines of less than 120 characters."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 100:
            lines.append("")
        lines[-1] += f"{word} "
    if len(lines) == 1:
        return _quoted(lines[0].strip())
    quoted = "\n        ".join(map(_quoted, [*lines[:-1], lines[-1].strip()]))
    return f"(\n        {quoted}\n    )"


def _quoted(text: str) -> str:
    return json.dumps(text)


def with_table(module: str, table: str) -> str:
    """The text of the module with another table."""
    head, _, rest = module.partition(BEGIN)
    return f"{head}{BEGIN}{table}{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table again, with the releases of the named jars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jars", nargs="+", type=Path)
    jars = parser.parse_args(arguments).jars
    releases = {name: kafka_versions.release(name) for name in kafka_versions.RELEASES}
    releases |= {release_of(jar): versions_in(jar) for jar in jars}
    TABLE.write_text(with_table(TABLE.read_text(), table_text(releases)))


if __name__ == "__main__":
    main()
