"""The text of the census for an operator: who breaks on a release of Kafka, at which API, and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from headgate.protocol.census import kafka_versions
from headgate.protocol.census.row_fields import verdict_of
from headgate.protocol.census.rows import CensusClient, CensusRow
from headgate.protocol.census.verdicts import READS, KafkaVerdict, RefusedVersion, name_of

_FORMATS: Final = {0: "0 (before Kafka 0.10)", 1: "1 (before Kafka 0.11)"}
_NO_CONVERSION: Final = "4.0.0"
"""The first release that converts no old formats."""


def report(rows: Sequence[CensusRow], release: str, *, shows_all: bool = False) -> Iterator[str]:
    """The lines about the clients that a release breaks, or that use old formats; or about all clients."""
    judged = [(row, verdict_of(row, release)) for row in rows]
    breaking = [one for one in judged if one[1].breaks]
    others = [one for one in judged if not one[1].breaks]
    yield f"{_clients(len(rows))} in the census; Kafka {release} breaks {len(breaking) or 'none of them'}."
    for row, verdict in breaking:
        yield ""
        yield from _client_lines(row, verdict)
    shown = others if shows_all else [one for one in others if one[1].old_formats]
    if shown:
        yield ""
        yield f"{'Clients' if shows_all else 'Clients with old formats'} that go on with Kafka {release}:"
    for row, verdict in shown:
        yield ""
        yield from _client_lines(row, verdict)


def summary(rows: Sequence[CensusRow], release: str) -> str:
    """One sentence, for standard error."""
    breaking = sum(verdict_of(row, release).breaks for row in rows)
    return f"Kafka {release} breaks {breaking} of {_clients(len(rows))}"


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


def _client_lines(row: CensusRow, verdict: KafkaVerdict) -> Iterator[str]:
    brokers = f"{'brokers' if len(row.node_ids) > 1 else 'broker'} {', '.join(map(str, row.node_ids))}"
    yield (
        f"{title(row.client)}: {row.requests} requests to {brokers}, from {_time(row.first_ms)} to {_time(row.last_ms)}"
    )
    for refused in verdict.refused:
        yield f"  {_refusal(refused, verdict.release)}"
    for old in verdict.old_formats:
        verb = "reads" if old.action == READS else "writes"
        converts = kafka_versions.RELEASES.index(verdict.release) < kafka_versions.RELEASES.index(_NO_CONVERSION)
        rest = "which the broker converts" if converts else "which Kafka 4 does not convert"
        yield f"  {verb} message format {_FORMATS[old.message_format]} by {name_of(old.api_key)} {old.version}, {rest}"
    for api_key in verdict.lacking:
        yield f"  {name_of(api_key)} is not in Kafka {verdict.release}: the client does without, or fails"


def _refusal(refused: RefusedVersion, release: str) -> str:
    api, version = name_of(refused.api_key), refused.version
    versions = kafka_versions.release(release)[refused.api_key]
    if refused.is_too_new:
        return f"{api} {version} comes with Kafka {refused.since}; Kafka {release} has {versions}"
    return f"{api} {version} is refused since Kafka {refused.since}; Kafka {release} has {versions}"


def title(client: CensusClient) -> str:
    """A client in a few words."""
    software = client.software_name or "unknown software"
    if client.software_version:
        software += f" {client.software_version}"
    name = "no client id" if client.client_id is None else client.client_id
    return f"{name} ({software}) as {client.principal} from {client.address} at {client.listener}"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
