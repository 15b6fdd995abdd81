"""As much of librdkafka's C interface as `librdkafka.py` needs; the same in every version since 0.11.4 (rdkafka.h)."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Final

PRODUCER, CONSUMER = 0, 1
# Arguments of rd_kafka_producev come in groups that begin with one of these
END, TOPIC, PARTITION, VALUE, KEY, FLAGS, TIMESTAMP, HEADER = 0, 1, 3, 4, 5, 7, 8, 9
COPY: Final = 2
PARTITION_EOF: Final = -191
ANY_PARTITION: Final = -1
BEGINNING: Final = -2
COMMITTED: Final = -1000


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class PartitionMetadata(Structure):
    """rd_kafka_metadata_partition_t, of which the size counts."""

    _fields_ = (
        ("id", c_int32),
        ("error", c_int),
        ("leader", c_int32),
        ("replicas_count", c_int),
        ("replicas", POINTER(c_int32)),
        ("isrs_count", c_int),
        ("isrs", POINTER(c_int32)),
    )


class TopicMetadata(Structure):
    """rd_kafka_metadata_topic_t."""

    _fields_ = (
        ("name", c_char_p),
        ("partitions_count", c_int),
        ("partitions", POINTER(PartitionMetadata)),
        ("error", c_int),
    )


class Metadata(Structure):
    """rd_kafka_metadata_t, up to its topics."""

    _fields_ = (
        ("brokers_count", c_int),
        ("brokers", c_void_p),
        ("topics_count", c_int),
        ("topics", POINTER(TopicMetadata)),
    )


DELIVERED: Final = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
FAILED: Final = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
DUE: Final = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_void_p)

# What each function returns, then what it takes; producev takes any number of arguments
FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "version_str": (c_char_p,),
    "err2str": (c_char_p, c_int),
    "conf_new": (c_void_p,),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "conf_set_dr_msg_cb": (None, c_void_p, DELIVERED),
    "conf_set_error_cb": (None, c_void_p, FAILED),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "destroy": (None, c_void_p),
    "poll": (c_int, c_void_p, c_int),
    "flush": (c_int, c_void_p, c_int),
    "outq_len": (c_int, c_void_p),
    "topic_new": (c_void_p, c_void_p, c_char_p, c_void_p),
    "topic_destroy": (None, c_void_p),
    "metadata": (c_int, c_void_p, c_int, c_void_p, POINTER(POINTER(Metadata)), c_int),
    "metadata_destroy": (None, POINTER(Metadata)),
    "topic_partition_list_new": (c_void_p, c_int),
    "topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "topic_partition_list_set_offset": (c_int, c_void_p, c_char_p, c_int32, c_int64),
    "topic_partition_list_destroy": (None, c_void_p),
    "poll_set_consumer": (c_int, c_void_p),
    "assign": (c_int, c_void_p, c_void_p),
    "subscribe": (c_int, c_void_p, c_void_p),
    "commit": (c_int, c_void_p, c_void_p, c_int),
    "consumer_poll": (POINTER(Message), c_void_p, c_int),
    "consumer_close": (c_int, c_void_p),
    "message_destroy": (None, POINTER(Message)),
    "message_timestamp": (c_int64, POINTER(Message), POINTER(c_int)),
    "message_headers": (c_int, POINTER(Message), POINTER(c_void_p)),
    "header_get_all": (c_int, c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t)),
}
# Since 1.4; most return an error object, or none
TRANSACTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "init_transactions": (c_void_p, c_void_p, c_int),
    "begin_transaction": (c_void_p, c_void_p),
    "send_offsets_to_transaction": (c_void_p, c_void_p, c_void_p, c_void_p, c_int),
    "commit_transaction": (c_void_p, c_void_p, c_int),
    "abort_transaction": (c_void_p, c_void_p, c_int),
    "consumer_group_metadata_new": (c_void_p, c_char_p),
    "consumer_group_metadata_destroy": (None, c_void_p),
    "error_string": (c_char_p, c_void_p),
}

# Since 1.0, with a function that is called when a token is due
BEARER: Final[dict[str, tuple[Any, ...]]] = {
    "conf_set_oauthbearer_token_refresh_cb": (None, c_void_p, DUE),
    "oauthbearer_set_token": (c_int, c_void_p, c_char_p, c_int64, c_char_p, c_void_p, c_size_t, c_char_p, c_size_t),
}


class KafkaError(Exception):
    """What librdkafka reported, in its words."""


class Library:
    """One librdkafka; its functions are attributes without their prefix."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        newer = TRANSACTIONS if hasattr(self.library, "rd_kafka_init_transactions") else {}
        newer = newer | BEARER if hasattr(self.library, "rd_kafka_oauthbearer_set_token") else {}
        for name, (result, *arguments) in {**FUNCTIONS, **newer}.items():
            function = self.library[f"rd_kafka_{name}"]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.producev = self.library["rd_kafka_producev"]
        self.producev.restype = c_int

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"rd_kafka_{name} is not declared in FUNCTIONS")

    @property
    def version(self) -> str:
        return str(self.version_str().decode())

    def check(self, error: int, what: str) -> None:
        """Raise what is an error."""
        if error:
            raise KafkaError(f"{what}: {self.err2str(error).decode()} ({error})")

    def check_object(self, error: int | None, what: str) -> None:
        """Raise what is an error object; it is not freed, as the process ends."""
        if error:
            raise KafkaError(f"{what}: {self.error_string(error).decode()}")

    def configuration(self, settings: dict[str, str]) -> c_void_p:
        configuration, said = c_void_p(self.conf_new()), ctypes.create_string_buffer(512)
        for name, value in settings.items():
            if self.conf_set(configuration, name.encode(), value.encode(), said, len(said)):
                raise KafkaError(f"{name}={value}: {said.value.decode()}")
        return configuration

    def handle(self, kind: int, configuration: c_void_p) -> c_void_p:
        """A client, PRODUCER or CONSUMER, to which the configuration belongs from now on."""
        said = ctypes.create_string_buffer(512)
        handle = self.new(kind, configuration, said, len(said))
        if not handle:
            raise KafkaError(said.value.decode())
        return c_void_p(handle)

    def set_token(self, handle: c_void_p, token: str, expires_ms: int, user: str) -> None:
        """The bearer token of a client, for which the client has asked by the function of its configuration."""
        said = ctypes.create_string_buffer(512)
        words = token.encode(), expires_ms, user.encode(), None, 0
        if self.oauthbearer_set_token(handle, *words, said, len(said)):
            raise KafkaError(said.value.decode())

    def headers(self, message: Any) -> tuple[tuple[str, bytes | None], ...]:
        found = c_void_p()
        if self.message_headers(message, ctypes.byref(found)):
            return ()  # it has none
        pairs: list[tuple[str, bytes | None]] = []
        name, value, size = c_char_p(), c_void_p(), c_size_t()
        where = ctypes.byref(name), ctypes.byref(value), ctypes.byref(size)
        while self.header_get_all(found, len(pairs), *where) == 0:
            pairs.append(((name.value or b"").decode(), content(value.value, size.value)))
        return tuple(pairs)


def content(address: int | None, size: int) -> bytes | None:
    """The bytes of a key, a value or a header; a null pointer is none."""
    return None if address is None else ctypes.string_at(address, size)
