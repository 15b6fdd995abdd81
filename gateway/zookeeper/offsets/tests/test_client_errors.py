from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.zookeeper.offsets.client_errors import ask_again, for_client, late, leaving, zookeeper_error
from headgate.gateway.zookeeper.requests import Failed
from headgate.gateway.zookeeper.session import KeeperError
from headgate.protocol.errors import ErrorCode, KafkaError


def test_clients_ask_again_after_these_errors() -> None:
    for error in (ask_again("no"), leaving(), late(), zookeeper_error(KeeperError.CONNECTION_LOSS)):
        assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_failed_request_to_zookeeper_is_the_clients_error() -> None:
    def fails() -> Task[None]:
        yield from ()
        raise Failed("/a", KeeperError.NO_AUTH)

    results: list[object] = []
    run(for_client(fails()), results.append)
    (error,) = results
    assert isinstance(error, KafkaError)
    assert error.message == "ZooKeeper: NO_AUTH"
