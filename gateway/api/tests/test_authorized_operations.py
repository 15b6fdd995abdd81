"""The bit fields of authorized operations."""

from headgate.gateway.api import authorized_operations


def test_the_fields_are_those_of_apache_kafka_without_an_authorizer() -> None:
    assert (authorized_operations.CLUSTER, authorized_operations.TOPIC) == (8096, 3576)
