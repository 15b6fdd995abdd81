"""The reasons for parts of an answer that are not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.protocol.client.failure import Failure
from headgate.tools.client.cluster import group_by_failure


class MissingParts(dict[str, str]):
    """Sentences by the name of a part: `{"sizes": "broker 1: not authorized (CLUSTER_AUTHORIZATION_FAILED)"}`."""

    def note(self, part: str, failures: Mapping[Any, Failure], kind: str = "") -> None:
        """Add the failures of a part; keys with the same reason share a sentence. `kind`: of the keys, as `broker`."""
        self.note_sentences(part, [f"{kind} {names}: {why.text}".strip() for names, why in group_by_failure(failures)])

    def note_sentences(self, part: str, sentences: list[str]) -> None:
        """Add sentences; each is there once."""
        known = self.get(part, "")
        added = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
        if added:
            self[part] = "; ".join([known, *added] if known else added)
