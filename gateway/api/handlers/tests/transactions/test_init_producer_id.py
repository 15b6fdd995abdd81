"""InitProducerId: a new id for every idempotent producer; `test_transactions` has the transactional ones."""

from pathlib import Path

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest

pytestmark = pytest.mark.every_metadata_store

IDEMPOTENT = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(node: HandlerBroker, version: int) -> None:
    responses = [node.ask(IDEMPOTENT, version) for _ in range(3)]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [(0, 0)] * 3
    assert len({response.producer_id for response in responses}) == 3


def test_no_id_is_given_again_after_a_restart(tmp_path: Path) -> None:
    given = set()
    for _ in range(3):
        node = HandlerBroker(tmp_path)
        given.add(node.ask(IDEMPOTENT, 4).producer_id)
        node.close()
    assert len(given) == 3


def test_a_producer_that_has_an_id_gets_a_new_one(node: HandlerBroker) -> None:
    first = node.ask(IDEMPOTENT, 4)
    again = InitProducerIdRequest(
        producer_id=first.producer_id, producer_epoch=first.producer_epoch, transactional_id=None
    )
    second = node.ask(again, 4)
    assert (second.error_code, second.producer_epoch) == (0, 0)
    assert second.producer_id != first.producer_id


def test_an_id_without_an_epoch_is_refused(node: HandlerBroker) -> None:
    response = node.ask(InitProducerIdRequest(transactional_id=None, producer_id=5), 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST
