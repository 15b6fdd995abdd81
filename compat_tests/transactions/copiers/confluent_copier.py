"""A copier: confluent-kafka, which speaks the old protocol of transactions. See `copier.py`."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

LIMIT_S = 60
POLL_S = 0.1
FENCED = 3


def end_with_input() -> None:
    """A copier does not outlive the test."""
    while sys.stdin.read(1):
        pass
    os._exit(0)


class TransactionalCopier:
    """One life of a copier."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        usual = {"bootstrap.servers": options.bootstrap, "log_level": 2}
        # librdkafka 2.16 gives its brokers up when the last one is gone, and may keep one of them as the coordinator of
        # the group: then it never sends TxnOffsetCommit, to Apache Kafka neither
        usual |= {"metadata.recovery.strategy": "none"}
        usual |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
        reading = {"group.id": options.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        reading |= {"isolation.level": "read_committed", "session.timeout.ms": options.session_ms}
        self.consumer = Consumer({**usual, **reading, "heartbeat.interval.ms": 200})
        # Small batches, so that a transaction has several requests in flight
        writing = {"transactional.id": options.id, "transaction.timeout.ms": options.timeout_ms}
        # The same happens once the metadata lack the dead coordinator. The transaction is overdue before this limit, so
        # that the next call is fenced
        self.offsets_limit_s = 2 * options.timeout_ms / 1000
        self.writing = {**usual, **writing, "batch.num.messages": 5, "linger.ms": 1}
        self.producer = self.new_producer()
        # Whether the coordinator has the present transaction for sure: a record or the offsets were acknowledged
        self.has_begun = False

    def new_producer(self) -> Producer:
        producer = Producer(self.writing)
        insist(lambda: producer.init_transactions(LIMIT_S))
        return producer

    def run(self) -> None:
        self.consumer.subscribe([self.options.input])
        while True:
            messages = self.consumer.consume(self.options.records, POLL_S)
            records = [message for message in messages if is_record(message)]
            if records:
                self.copy(records)

    def copy(self, records: Sequence[Message]) -> None:
        """One transaction; an aborted one is read again."""
        try:
            self.commit(records)
        except KafkaException as failure:
            error = error_of(failure)
            sys.stderr.write(f"{error!r}\n")
            if not error.txn_requires_abort():
                raise
            self.abort(records)

    def commit(self, records: Sequence[Message]) -> None:
        producer = self.producer
        self.has_begun = False
        producer.begin_transaction()
        for record in records:
            self.produce(record)
        time.sleep(self.options.pause_ms / 1000)
        offsets = [place(record, 1) for record in last_of_each(records)]
        metadata = self.consumer.consumer_group_metadata()
        insist(lambda: producer.send_offsets_to_transaction(offsets, metadata, self.offsets_limit_s))
        self.has_begun = True
        if self.chance.randrange(self.options.commits_an_abort) == 0:
            self.abort(records)
            return
        insist(lambda: producer.commit_transaction(LIMIT_S))
        sys.stdout.write(json.dumps({"committed": {one.partition: one.offset for one in offsets}}) + "\n")
        sys.stdout.flush()

    def produce(self, record: Message) -> None:
        value, partition = record.value(), record.partition()
        assert value is not None
        assert partition is not None
        self.producer.produce(self.options.output, value.upper(), partition=partition, on_delivery=self.note_delivery)

    def note_delivery(self, error: KafkaError | None, _: Message) -> None:
        self.has_begun |= error is None

    def abort(self, records: Sequence[Message]) -> None:
        try:
            insist(lambda: self.producer.abort_transaction(LIMIT_S))
        except KafkaException as failure:
            # Apache Kafka refuses the abort too if the transaction never began, and librdkafka makes that fatal
            if self.has_begun or error_of(failure).code() != KafkaError.INVALID_TXN_STATE:
                raise
            sys.stderr.write(f"a new producer: {error_of(failure)!r}\n")
            self.producer = self.new_producer()
        for record in last_of_each(records[::-1]):
            self.consumer.seek(place(record, 0))


def is_record(message: Message) -> bool:
    """Whether it is no error; one that is fatal ends the program."""
    error = message.error()
    if error is not None and error.fatal():
        raise KafkaException(error)
    return error is None


def last_of_each(records: Sequence[Message]) -> list[Message]:
    """The last record of each partition."""
    return list({record.partition(): record for record in records}.values())


def place(record: Message, after: int) -> TopicPartition:
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return TopicPartition(topic, partition, offset + after)


def insist(call: Callable[[], None]) -> None:
    """Call until the error is none that goes away, as the documentation of librdkafka asks for."""
    while True:
        try:
            call()
        except KafkaException as failure:
            if not error_of(failure).retriable():
                raise
        else:
            return


def error_of(failure: KafkaException) -> KafkaError:
    error = failure.args[0]
    assert isinstance(error, KafkaError)
    return error


def is_fenced(failure: KafkaException) -> bool:
    """Whether another has the transactional id by now, or the transaction was overdue."""
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001
    return error_of(failure).code() in fenced


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "input", "output", "group", "protocol", "id", "seed"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("session-ms", "timeout-ms", "records", "pause-ms", "commits-an-abort"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    assert options.protocol == "classic"
    threading.Thread(target=end_with_input, daemon=True).start()
    try:
        TransactionalCopier(options).run()
    except KafkaException as failure:
        if not is_fenced(failure):
            raise
        os._exit(FENCED)


if __name__ == "__main__":
    main()
