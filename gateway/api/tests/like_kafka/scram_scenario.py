"""What is asked of a broker to see its rules for SCRAM credentials; `test_scram` compares with Kafka.

    play(broker)        # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.scram_scenario PORT > scram_of_kafka.txt

The second line records the answers of an Apache Kafka 4.1.2 on this machine that is new, as they stand in that file.
Kafka orders users by its hash maps, and mechanisms too: the answers are sorted.
"""

from __future__ import annotations

import sys
from typing import Any

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

Deletion = tuple[str, int]
Upsertion = tuple[str, int, int]

CHANGES: dict[str, tuple[tuple[Deletion, ...], tuple[Upsertion, ...]]] = {
    "nothing": ((), ()),
    "one": ((), (("ann", 1, 4096),)),
    "the other mechanism": ((), (("ann", 2, 8192),)),
    "both mechanisms at once": ((), (("ben", 1, 4096), ("ben", 2, 4096))),
    "three times": ((), (("ben", 1, 4096), ("ben", 2, 4096), ("ben", 1, 4097))),
    "several users": ((), (("ben", 1, 4096), ("c,d=e %/", 1, 16384), ("zo\u00eb", 2, 5000))),
    "new iterations": ((), (("ben", 1, 5000),)),
    "few iterations": ((), (("dan", 1, 4095),)),
    "no iterations": ((), (("dan", 1, 0),)),
    "negative iterations": ((), (("dan", 1, -1),)),
    "many iterations": ((), (("dan", 1, 16385),)),
    "no name": ((), (("", 1, 4096),)),
    "mechanism 0": ((), (("dan", 0, 4096),)),
    "mechanism 3": ((), (("dan", 3, 4096),)),
    "mechanism -1": ((), (("dan", -1, 4096),)),
    "few iterations of mechanism 3": ((), (("dan", 3, 1),)),
    "an error beside a change": ((), (("dan", 1, 4095), ("eve", 1, 4096))),
    "an error, then a valid change": ((), (("dan", 1, 4095), ("dan", 1, 4096))),
    "a valid change, then an error": ((), (("dan", 1, 4096), ("dan", 1, 4095))),
    "deletion of nobody": ((("dan", 1),), ()),
    "deletion without a name": ((("", 1),), ()),
    "deletion of mechanism 3": ((("ann", 3),), ()),
    "deletion of another mechanism": ((("eve", 2),), ()),
    "deletion twice": ((("eve", 1), ("eve", 1)), ()),
    "deletion and change": ((("ann", 1),), (("ann", 2, 4096),)),
    "failed deletion and change": ((("ann", 3),), (("ann", 2, 4096),)),
    "deletion of one mechanism": ((("ann", 1),), ()),
    "deletion of the last mechanism": ((("ann", 2),), ()),
    "deletion beside an error": ((("ben", 1), ("dan", 1)), (("fay", 1, 4096), ("gus", 1, 1))),
}
DESCRIBED: dict[str, list[str] | None] = {
    "all": None,
    "an empty list": [],
    "one": ["fay"],
    "nobody": ["dan"],
    "twice": ["fay", "fay"],
    "three times and another": ["fay", "eve", "fay", "fay"],
    "twice nobody": ["dan", "dan"],
    "an empty name": [""],
    "odd names": ["c,d=e %/", "zo\u00eb"],
}


def play(broker: Broker) -> dict[str, str]:
    """The answers of a broker by name."""
    answers = {}
    for name, (deletions, upsertions) in CHANGES.items():
        answers[f"alter, {name}"] = _altered(broker, deletions, upsertions)
        answers[f"alter, {name}, then"] = _described(broker, None)
    for name, users in DESCRIBED.items():
        answers[f"describe, {name}"] = _described(broker, users)
    return answers


def _altered(broker: Broker, deletions: tuple[Deletion, ...], upsertions: tuple[Upsertion, ...]) -> str:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(name, mechanism) for name, mechanism in deletions],
        [
            ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"password")
            for name, mechanism, iterations in upsertions
        ],
    )
    return _rows([(row.user, row.error_code, row.error_message) for row in broker.ask(request, 0).results])


def _described(broker: Broker, users: list[str] | None) -> str:
    names = None if users is None else [UserName(name) for name in users]
    response = broker.ask(DescribeUserScramCredentialsRequest(names), 0)
    rows = [
        (
            row.user,
            row.error_code,
            row.error_message,
            sorted((info.mechanism, info.iterations) for info in row.credential_infos),
        )
        for row in response.results
    ]
    return f"{response.error_code} {response.error_message} {_rows(rows)}"


def _rows(rows: list[Any]) -> str:
    return " | ".join(" ".join(map(str, row)) for row in sorted(rows, key=str))


if __name__ == "__main__":
    for name, answer in play(Remote(int(sys.argv[1]))).items():
        sys.stdout.write(f"{name}\t{answer}\n")
