"""Records a second from the ends of partitions."""

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.console.live.end_offsets import EndSurvey, growth, pause_s, survey
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_growth_is_of_all_partitions_that_were_there_before() -> None:
    before = EndSurvey(10.0, {A0: 5, A1: 7, B0: 9}, 0)
    after = EndSurvey(12.0, {A0: 9, A1: 17, B0: 2, TopicPartition("c", 0): 1000}, 0)
    assert growth(before, after) == (7.0, [("a", 7.0)])


def test_large_clusters_are_surveyed_less_often() -> None:
    assert pause_s(10) == 1.0
    assert pause_s(10_000) == 10.0


def test_all_leaders_are_asked(model: ModelCluster) -> None:
    model.topics = model.topics | {"a": [Log(leader=1), Log(leader=0)], "b": [Log(leader=2)]}
    with opened() as cluster:
        found = survey(cluster, lambda: 3.0)
    assert (set(found.ends) >= {A0, A1, B0}, found.failed, found.at_s) == (True, 0, 3.0)
