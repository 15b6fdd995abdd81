"""Export and import: a round trip, the documented form, and every way in which a file may be wrong."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.export_format import build_document, drop_foreign_epochs, parse_document
from headgate.tools.groups.members import GroupDescription
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata
from headgate.tools.output import UsageError
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
GROUP = GroupDescription("g", "Empty", "classic", "consumer", "range", "127.0.0.1:9092", [])
EXPORT = {
    "format": "headgate group offsets",
    "version": 1,
    "exported_at": "2023-11-14T22:13:20.005Z",
    "cluster_id": "c",
    "groups": [
        {
            "group": "g",
            "type": "classic",
            "state": "Empty",
            "protocol": "consumer",
            "offsets": [
                {"topic": "a", "partition": 0, "offset": 5, "leader_epoch": 3, "metadata": "note"},
                {"topic": "a", "partition": 1, "offset": 0, "leader_epoch": None, "metadata": ""},
            ],
        }
    ],
}


def test_an_export_has_the_documented_form() -> None:
    offsets = {"g": {A1: OffsetAndMetadata(0), A0: OffsetAndMetadata(5, 3, "note")}}
    assert build_document({"g": GROUP}, offsets, "c", 1_700_000_000_005) == EXPORT


def test_an_export_is_read_back() -> None:
    assert parse_document(json.dumps(EXPORT), []) == (
        {"g": {A0: OffsetAndMetadata(5, 3, "note"), A1: OffsetAndMetadata(0)}},
        "c",
    )


partitions = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, (1 << 31) - 1))
places = st.builds(OffsetAndMetadata, st.integers(0, (1 << 63) - 1), st.integers(-1, (1 << 31) - 1), st.text())


@settings(max_examples=25)
@given(st.dictionaries(st.text(min_size=1), st.dictionaries(partitions, places, min_size=1, max_size=4), max_size=3))
def test_a_round_trip_loses_nothing(offsets: dict[str, CommittedOffsets]) -> None:
    groups = {name: GROUP._replace(name=name) for name in offsets}
    assert parse_document(json.dumps(build_document(groups, offsets, None, 0)), []) == (offsets, None)


def test_an_import_may_name_groups() -> None:
    export: dict[str, Any] = copy.deepcopy(EXPORT)
    export["groups"] += [{"group": "h", "offsets": [{"topic": "a", "partition": 0, "offset": 1}]}]
    export["groups"] += [{"group": "nothing", "offsets": [], "what comes later": {}}]
    text = json.dumps(export)
    assert parse_document(text, ["h"])[0] == {"h": {A0: OffsetAndMetadata(1)}}
    assert set(parse_document(text, [])[0]) == {"g", "h"}
    with pytest.raises(UsageError, match="the export has no group 'x', 'y'; it has g, h, nothing"):
        parse_document(text, ["x", "h", "y"])


def spoilt(path: list[Any], value: object) -> str:
    export: Any = copy.deepcopy(EXPORT)
    place = export
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(export)


ROW = ["groups", 0, "offsets", 1]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
        ("[]", 'this is no export of `headgate groups export`: "format" is not'),
        ('{"format": "x"}', "this is no export"),
        (spoilt(["version"], 2), "the export has version 2, this tool reads version 1"),
        (spoilt(["groups"], {}), "groups: there is no array"),
        (spoilt(["groups", 0], 5), r"groups\[0\]: 5 is no object"),
        (spoilt(["groups", 0, "group"], ""), r"groups\[0\].group: '' is no name"),
        (spoilt(["groups", 0, "offsets"], None), r"groups\[0\].offsets: there is no array"),
        (spoilt(ROW, "x"), r"groups\[0\].offsets\[1\]: 'x' is no object"),
        (spoilt([*ROW, "topic"], 7), r"groups\[0\].offsets\[1\].topic: 7 is no name"),
        (spoilt([*ROW, "partition"], -1), r"groups\[0\].offsets\[1\].partition: -1 is no whole number from 0 on"),
        (spoilt([*ROW, "partition"], 0), r"groups\[0\].offsets\[1\]: a-0 stands in the document twice"),
        (spoilt([*ROW, "offset"], 1.0), r"groups\[0\].offsets\[1\].offset: 1.0 is no whole number"),
        (spoilt([*ROW, "offset"], True), r"offset: True is no whole number"),
        (spoilt([*ROW, "offset"], 1 << 63), r"offset: 9223372036854775808 is no whole number"),
        (spoilt([*ROW, "leader_epoch"], "x"), r"leader_epoch: 'x' is no whole number"),
        (spoilt([*ROW, "metadata"], 5), r"metadata: 5 is no text"),
        (
            json.dumps({**EXPORT, "groups": EXPORT["groups"] * 2}),  # type: ignore[operator]
            r"groups\[1\]: group 'g' stands in the document twice",
        ),
    ],
)
def test_wrong_documents_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_document(text, [])


@pytest.mark.parametrize("cluster_id, epoch", [("model", 3), ("another", -1), (None, -1)])
def test_leader_epochs_stay_in_their_cluster(model: ModelCluster, cluster_id: str | None, epoch: int) -> None:
    model.topics["a"] = [Log(leader_epoch=3), Log(leader_epoch=2)]
    offsets = {
        "g": {
            A0: OffsetAndMetadata(5, 3, "note"),
            A1: OffsetAndMetadata(5, 3),
            TopicPartition("gone", 0): OffsetAndMetadata(5, 3),
        }
    }
    with opened() as cluster:
        here = drop_foreign_epochs(cluster, offsets, cluster_id)
    assert here["g"][A0] == OffsetAndMetadata(5, epoch, "note")
    assert here["g"][A1] == OffsetAndMetadata(5, -1), "an epoch that the partition has not reached: it was made anew"
    assert here["g"][TopicPartition("gone", 0)] == OffsetAndMetadata(5, -1)
