"""Counts of requests by client."""

from __future__ import annotations

import struct

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import load
from headgate.gateway.runtime.request_counts import NO_REQUESTS, RequestCounts
from headgate.gateway.tests.builders import HandlerBroker


def new_client() -> Client:
    return Client("192.0.2.9", 50_000, "192.0.2.1", 9092)


def test_each_client_has_its_own_counts() -> None:
    counts, first, second = RequestCounts(), new_client(), new_client()
    for client, api_key, version in ((first, 3, 9), (second, 1, 4), (first, 3, 9), (second, 3, 9), (first, 1, 2)):
        counts.count(client, api_key, version)
    assert list(counts.of(first)) == [(3, 9, 2), (1, 2, 1)]
    assert list(counts.of(second)) == [(3, 9, 1), (1, 4, 1)]
    assert list(counts.of(new_client())) == []
    assert NO_REQUESTS == []


def test_a_dispatcher_counts_each_request_once(node: HandlerBroker) -> None:
    dispatcher, client = Dispatcher(node.services, load()), new_client()
    for number in range(300):  # some of them are timed, and most are answered from a cache
        api_key, version, body = ((3, 1, b"\0\0\0\0"), (18, 0, b""))[number % 3 == 0]
        head = struct.pack(">hhi", api_key, version, number) + b"\xff\xff"
        dispatcher.dispatch(memoryview(bytearray(head + body)), client, lambda _reply: None)
    assert sorted(dispatcher.request_counts.of(client)) == [(3, 1, 200), (18, 0, 100)]


def test_new_counts_are_taken_once() -> None:
    counts, client = RequestCounts(), new_client()
    for api_key, version in ((3, 9), (1, 4), (3, 9)):
        counts.count(client, api_key, version)
    assert counts.take_new(client) == [(3, 9, 2), (1, 4, 1)]
    assert counts.take_new(client) == []
    for api_key, version in ((2, 1), (3, 9)):
        counts.count(client, api_key, version)
    assert counts.take_new(client) == [(3, 9, 1), (2, 1, 1)]


def test_a_client_that_negotiates_has_not_begun() -> None:
    counts, client = RequestCounts(), new_client()
    assert not counts.has_begun(client)
    for api_key in (18, 17, 36):
        counts.count(client, api_key, 1)
    assert not counts.has_begun(client)
    counts.count(client, 3, 1)
    assert counts.has_begun(client)
