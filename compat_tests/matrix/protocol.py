"""The page docs/protocol.md: every API with its versions, its handler, and the clients that used which version.

    python -m compat_tests.matrix.protocol      # writes the page from used.json and what the broker serves

`make protocol` has the clients run before, which says anew what they use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from compat_tests.harness.apache_kafka import ROOT
from compat_tests.matrix import permissions, usage
from compat_tests.matrix.permissions import Permissions
from compat_tests.matrix.usage import Used

PAGE: Final = ROOT / "docs" / "protocol.md"
HEAD: Final = """\
# The protocol

Made by `make protocol`; do not edit. The served APIs, and the stock clients that have used each version. `make test`
runs the clients (`compat_tests/matrix/`); an answered request counts. All versions, also those that no named client
uses, are compared with Kafka's definitions and with the bytes of Kafka's own classes.

ApiVersions returns exactly these versions. Any other request closes the connection, with a line in the log that names
the client; only an unknown version of ApiVersions gets a response, with the list (KIP-511). OffsetCommit 0 and
OffsetFetch 0, whose offsets are in ZooKeeper, are there with `zookeeper.connect` only.

{clients}

With an authorizer a client needs the ACLs of the column `ACLs`, each for the resources that its request names. `or`
is between operations of which one is enough; ClusterAction of Fetch and AddPartitionsToTxn is for requests of brokers.
Read, Write, Delete and Alter allow Describe too, AlterConfigs allows DescribeConfigs. The column is made from answers
of Kafka 4.1 and 3.9, in KRaft and with ZooKeeper, to clients with 76 sets of ACLs (`gateway/api/tests/under_acls/`).
The last column has the versions whose answers are compared with those, field by field. ACLs of delegation tokens are
for tokens of others (`gateway/security/tokens/tests/`).

| key | API | versions | handler | used by named clients | ACLs | compared |
|---|---|---|---|---|---|---|
"""
CLIENTS: Final = "The clients, some with the version of the protocol that they were configured for:"
# compat_tests import nothing of ours: another process asks what is registered
ASK: Final = """\
import json
from headgate.gateway.api import handler_registration
print(json.dumps([
    [key, api.request.__name__, api.served_min, api.served_max, sorted({one.handler.__module__ for one in api.ranges})]
    for key, api in sorted(handler_registration.load().items())
]))
"""


class Served(NamedTuple):
    """One API as it is registered."""

    key: int
    name: str
    first: int
    last: int
    files: tuple[str, ...]


def served() -> list[Served]:
    done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    return [
        Served(
            key,
            request.removesuffix("Request"),
            first,
            last,
            tuple(f"{one.removeprefix('headgate.').replace('.', '/')}.py" for one in modules),
        )
        for key, request, first, last, modules in json.loads(done.stdout)
    ]


def page(apis: Iterable[Served], used: Mapping[str, Used], asked: Mapping[str, Permissions]) -> str:
    apis = list(apis)
    rows = "".join(row(api, clients_of(api, used), asked.get(api.name)) for api in apis)
    clients = textwrap.fill(f"{CLIENTS} {by_family(used)}.", 120, break_long_words=False, break_on_hyphens=False)
    return HEAD.format(clients=clients) + rows + "".join(section(api, clients_of(api, used)) for api in apis)


def clients_of(api: Served, used: Mapping[str, Used]) -> dict[int, list[str]]:
    """The clients that used each version; versions without one are left out."""
    found = {
        version: [client for client, pairs in used.items() if (api.key, version) in pairs]
        for version in range(api.first, api.last + 1)
    }
    return {version: clients for version, clients in found.items() if clients}


def row(api: Served, clients: Mapping[int, list[str]], asked: Permissions | None) -> str:
    versions = str(api.first) if api.first == api.last else f"{api.first}-{api.last}"
    files = ", ".join(f"`{file}`" for file in api.files)
    cells = [str(api.key), api.name, versions, files, ", ".join(spans(clients)) or "-"]
    cells += ["-", "-"] if asked is None else [str(asked) or "none", ", ".join(spans(asked.versions))]
    return f"| {' | '.join(cells)} |\n"


def spans(versions: Iterable[int]) -> Iterator[str]:
    """0, 1, 2, 5 as 0-2, 5."""
    left = sorted(versions)
    while left:
        first = last = left.pop(0)
        while left and left[0] == last + 1:
            last = left.pop(0)
        yield str(first) if first == last else f"{first}-{last}"


def section(api: Served, clients: Mapping[int, list[str]]) -> str:
    if not clients:
        return ""
    rows = "".join(f"| {version} | {by_family(clients[version])} |\n" for version in sorted(clients))
    return f"\n## {api.name}\n\n| version | used by |\n|---|---|\n{rows}"


def by_family(clients: Iterable[str]) -> str:
    """`java 2.8.2, 3.9.1; sarama v1.10.1 at 0.8.2`."""
    families: dict[str, list[str]] = {}
    for client in sorted(clients, key=in_order):
        family, _, version = client.partition(" ")
        families.setdefault(family, []).append(version)
    return "; ".join(f"{family} {', '.join(versions)}" for family, versions in sorted(families.items()))


def in_order(client: str) -> list[tuple[int, str]]:
    """0.9.0 before 0.10.2."""
    words = client.replace("v", ".").replace(" ", ".").split(".")
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


def main() -> None:
    PAGE.write_text(page(served(), usage.load(), permissions.load()))


if __name__ == "__main__":
    main()
