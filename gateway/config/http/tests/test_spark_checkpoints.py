"""The folders of Spark's queries, as a setting."""

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.http.spark_checkpoints import parse_checkpoints
from headgate.gateway.config.loading import ConfigError

SETTING = "headgate.spark.checkpoints"


def test_folders_have_names() -> None:
    items = ["orders:/data/c", "b: file:///data/b/", "with:/a:colon"]
    assert parse_checkpoints(items) == {"orders": "/data/c", "b": "/data/b", "with": "/a:colon"}
    assert parse_checkpoints([]) == {}


@pytest.mark.parametrize("item", ["/data/c", "orders:", ":/data/c", "orders:data/c", "orders:s3://bucket/c"])
def test_a_folder_has_a_name_and_a_path_of_this_machine(item: str) -> None:
    with pytest.raises(ValueError, match=item):
        parse_checkpoints([item])


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="a:/c"):
        parse_checkpoints(["a:/b", "a:/c"])


def test_a_broker_refuses_other_folders_with_a_sentence() -> None:
    assert BrokerConfig.load("", {}).headgate_spark_checkpoints == ()
    with pytest.raises(ConfigError, match=r"headgate\.spark\.checkpoints.*name:/directory"):
        BrokerConfig.load("", {SETTING: "orders:s3://bucket/c"})
