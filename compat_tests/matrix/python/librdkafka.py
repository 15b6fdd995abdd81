"""librdkafka of any age through ctypes: `--library` is the path of the one to load. See `lines.py`.

Told of a protocol, it does not ask the broker for versions: so it spoke to those that had no ApiVersions.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any

from compat_tests.harness.records import Received, Sent
from compat_tests.matrix.python import rdkafka
from compat_tests.matrix.python.lines import HEARTBEAT_MS, LIMIT_S, STAY_S, Missing, Program, Transaction, main
from compat_tests.matrix.python.rdkafka import KafkaError, Library, Message, content

LIMIT_MS = int(LIMIT_S * 1000)
TOKEN_S = 3600
SECURITY: dict[str, str] = json.loads(os.environ.get("COMPAT_TLS", "{}"))


class Librdkafka(Program):
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.library = Library(options.library)
        self.topic = options.topic.encode()
        self.failures: list[str] = []
        # Kept here: the library holds no reference to what it calls
        self.callbacks = rdkafka.DELIVERED(self.delivered), rdkafka.FAILED(self.failed)
        self.token_is_due = rdkafka.DUE(lambda *_: None)
        self.token: str = SECURITY.get("signedToken", "")

    def configuration(self, **settings: str) -> c_void_p:
        """Settings with `_` for each dot; those of every client are added."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        if self.options.protocol:
            named |= {"api.version.request": "false", "broker.version.fallback": self.options.protocol}
        if self.library.version.startswith("0."):
            # Else its threads notice only each second what there is to do
            named["socket.blocking.max.ms"] = "50"
        named |= self.security()
        found = self.library.configuration({"bootstrap.servers": self.options.bootstrap, **named})
        self.library.conf_set_error_cb(found, self.callbacks[1])
        if self.token:
            self.library.conf_set_oauthbearer_token_refresh_cb(found, self.token_is_due)
        return found

    def handle(self, kind: int, configuration: c_void_p) -> c_void_p:
        """A client; a signed token, which no setting has, follows."""
        handle = self.library.handle(kind, configuration)
        if self.token:
            self.library.set_token(handle, self.token, int((time.time() + TOKEN_S) * 1000), "unused")
        return handle

    def security(self) -> dict[str, str]:
        """Settings of TLS, see `security/client_security.py`. Version 1.0 is the first that checks a host name."""
        files = SECURITY
        if not files:
            return {}
        names = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
        checks = {} if self.library.version.startswith("0.") else {"ssl.endpoint.identification.algorithm": "https"}
        settings = {"security.protocol": "SSL", **checks}
        settings |= {name: files[field] for field, name in names.items() if field in files}
        if "mechanism" not in files:
            return settings
        # A reader that ends while it logs in elsewhere says so; errors come by the callback
        settings |= {"security.protocol": "SASL_SSL", "sasl.mechanisms": files["mechanism"], "log_level": "2"}
        if self.token:
            return settings
        if files["mechanism"] == "OAUTHBEARER":  # it makes a token without a signature
            unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true"}
            return {**settings, **unsecured, "sasl.oauthbearer.config": f"principal={files['user']}"}
        return {**settings, "sasl.username": files["user"], "sasl.password": files["password"]}

    def delivered(self, handle: int, message: Any, opaque: int) -> None:
        if error := message.contents.error:
            self.failures.append(f"not delivered: {self.library.err2str(error).decode()}")

    def failed(self, handle: int, error: int, reason: bytes, opaque: int) -> None:
        self.failures.append(f"{self.library.err2str(error).decode()}: {reason.decode()}")

    def raise_failures(self) -> None:
        if self.failures:
            raise KafkaError("; ".join(self.failures[:3]))

    def produce(self, records: Iterable[Sent], codec: str) -> None:
        library = self.library
        configuration = self.configuration(compression_codec=codec, linger_ms="5", request_required_acks="-1")
        library.conf_set_dr_msg_cb(configuration, self.callbacks[0])
        producer = self.handle(rdkafka.PRODUCER, configuration)
        for record in records:
            library.check(library.producev(producer, *arguments(self.topic, record)), "producev")
        self.flush(producer)
        library.destroy(producer)

    def flush(self, producer: c_void_p) -> None:
        """Wait for the acknowledgements, or for the first failure."""
        deadline_s = time.monotonic() + LIMIT_S
        while error := self.library.flush(producer, 100):
            self.raise_failures()
            if time.monotonic() > deadline_s:
                self.library.check(error, "flush")
        self.raise_failures()

    def transact(self, name: str, group: str, transactions: Iterable[Transaction]) -> None:
        library = self.library
        configuration = self.configuration(transactional_id=name)
        library.conf_set_dr_msg_cb(configuration, self.callbacks[0])
        producer = self.handle(rdkafka.PRODUCER, configuration)
        metadata = c_void_p(library.consumer_group_metadata_new(group.encode()))
        library.check_object(library.init_transactions(producer, LIMIT_MS), "init_transactions")
        for records, offset, end in transactions:
            library.check_object(library.begin_transaction(producer), "begin_transaction")
            for record in records:
                library.check(library.producev(producer, *arguments(self.topic, record)), "producev")
            library.check(library.flush(producer, LIMIT_MS), "flush")
            self.raise_failures()
            self.send_offset(producer, metadata, offset)
            finish = library.commit_transaction if end == "commit" else library.abort_transaction
            library.check_object(finish(producer, LIMIT_MS), end)
        library.consumer_group_metadata_destroy(metadata)
        library.destroy(producer)

    def send_offset(self, producer: c_void_p, metadata: c_void_p, offset: int) -> None:
        def send(wanted: c_void_p) -> int:
            error = self.library.send_offsets_to_transaction(producer, wanted, metadata, LIMIT_MS)
            self.library.check_object(error, "send_offsets_to_transaction")
            return 0

        self.with_list({0: offset}, send, "send_offsets_to_transaction")

    def consumer(self, group: str) -> c_void_p:
        settings = {"enable_auto_commit": "false", "auto_offset_reset": "earliest"}
        if self.options.isolation:
            settings["isolation_level"] = self.options.isolation
        settings["heartbeat_interval_ms"] = str(HEARTBEAT_MS)
        consumer = self.handle(rdkafka.CONSUMER, self.configuration(group_id=group, **settings))
        self.library.check(self.library.poll_set_consumer(consumer), "poll_set_consumer")
        return consumer

    def read(self, count: int) -> Iterable[Received]:
        """It insists on the name of a group, and commits nothing."""
        consumer = self.consumer("unused")
        self.assign(consumer, rdkafka.BEGINNING)
        yield from self.poll(consumer, count)
        self.close(consumer)

    def group(self, group: str, count: int) -> Iterable[Received]:
        consumer = self.consumer(group)
        self.join(consumer)
        positions: dict[int, int] = {}
        for record in self.poll(consumer, count):
            positions[record.partition] = record.offset + 1
            yield record
        self.with_list(positions, lambda wanted: self.library.commit(consumer, wanted, 0), "commit")
        time.sleep(STAY_S)
        self.close(consumer)

    def join(self, consumer: c_void_p) -> None:
        """Brokers of 0.8 kept offsets but knew no members: there it takes all partitions from where the group was."""
        if (self.options.protocol or "").startswith("0.8"):
            self.assign(consumer, rdkafka.COMMITTED)
        else:
            anywhere = {rdkafka.ANY_PARTITION: rdkafka.COMMITTED}
            self.with_list(anywhere, lambda wanted: self.library.subscribe(consumer, wanted), "subscribe")

    def assign(self, consumer: c_void_p, offset: int) -> None:
        partitions = dict.fromkeys(range(self.partitions_count(consumer)), offset)
        self.with_list(partitions, lambda wanted: self.library.assign(consumer, wanted), "assign")

    def partitions_count(self, consumer: c_void_p) -> int:
        topic = c_void_p(self.library.topic_new(consumer, self.topic, None))
        found = ctypes.POINTER(rdkafka.Metadata)()
        self.library.check(self.library.metadata(consumer, 0, topic, ctypes.byref(found), LIMIT_MS), "metadata")
        count = found.contents.topics[0].partitions_count
        self.library.metadata_destroy(found)
        self.library.topic_destroy(topic)
        return int(count)

    def with_list(self, offsets: Mapping[int, int], function: Callable[[c_void_p], int], what: str) -> None:
        """Call a function that takes the topic's partitions with an offset each."""
        wanted = c_void_p(self.library.topic_partition_list_new(len(offsets)))
        for partition, offset in offsets.items():
            self.library.topic_partition_list_add(wanted, self.topic, partition)
            self.library.topic_partition_list_set_offset(wanted, self.topic, partition, offset)
        self.library.check(function(wanted), what)
        self.library.topic_partition_list_destroy(wanted)

    def poll(self, consumer: c_void_p, count: int) -> Iterator[Received]:
        missing = Missing(count)
        while missing:
            self.raise_failures()
            if message := self.library.consumer_poll(consumer, 200):
                # The end of a partition is no error, though it comes as one
                if message.contents.error != rdkafka.PARTITION_EOF:
                    self.library.check(message.contents.error, "consumer_poll")
                    yield from missing.take([self.received(message)])
                self.library.message_destroy(message)

    def received(self, message: Any) -> Received:
        found: Message = message.contents
        kind = c_int()
        told_ms = self.library.message_timestamp(message, ctypes.byref(kind))
        # Old ones say 0 where there is none
        timestamp_ms = told_ms if kind.value else -1
        key, value = content(found.key, found.key_size), content(found.value, found.value_size)
        return Received(found.partition, found.offset, timestamp_ms, key, value, self.library.headers(message))

    def close(self, consumer: c_void_p) -> None:
        self.library.check(self.library.consumer_close(consumer), "consumer_close")
        self.library.destroy(consumer)


def arguments(topic: bytes, record: Sent) -> Iterator[object]:
    """Of producev, for a record: each value after what it is, and at last the end."""
    yield from (c_int(rdkafka.TOPIC), c_char_p(topic), c_int(rdkafka.FLAGS), c_int(rdkafka.COPY))
    if record.partition is not None:
        yield from (c_int(rdkafka.PARTITION), c_int(record.partition))
    if record.timestamp_ms is not None:
        yield from (c_int(rdkafka.TIMESTAMP), c_int64(record.timestamp_ms))
    yield from (c_int(rdkafka.KEY), c_char_p(record.key), c_size_t(len(record.key or b"")))
    yield from (c_int(rdkafka.VALUE), c_char_p(record.value), c_size_t(len(record.value or b"")))
    for name, value in record.headers:
        yield from (c_int(rdkafka.HEADER), c_char_p(name.encode()), c_char_p(value), c_ssize_t(len(value or b"")))
    yield c_int(rdkafka.END)


if __name__ == "__main__":
    main(Librdkafka, "library")
