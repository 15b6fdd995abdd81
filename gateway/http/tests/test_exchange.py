"""One HTTP exchange: every sequence of bytes is a request or a refusal, in whatever portions it comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.http.exchange import FOREIGN_HOST, HEAD_BYTES, HttpExchange, Refusal, Request, not_found
from headgate.protocol.tests.examples import share

GET = b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"


def outcome(data: bytes, step: int, *, has_ended: bool = False) -> Request | Refusal | None:
    exchange = HttpExchange()
    for start in range(0, len(data), step):
        result = exchange.receive(data[start : start + step])
        if result is not None:
            return result
    return exchange.receive(b"") if has_ended else None


def comparable(result: Request | Refusal | None) -> object:
    """h11 may word the same fault differently once it has seen more of the line."""
    return result.status if isinstance(result, Refusal) else result


@pytest.mark.parametrize(
    "target, path",
    [
        (b"/metrics", "/metrics"),
        (b"/metrics?name[]=a", "/metrics"),
        (b"/", "/"),
        (b"http://127.0.0.1:9644/v1/broker.json?x#y", "/v1/broker.json"),
        (b"HTTPS://host", "/"),
        (b"/%6detrics", "/%6detrics"),
    ],
)
def test_a_request_has_a_path(target: bytes, path: str) -> None:
    for version in (b"1.0", b"1.1"):
        request = outcome(b"GET %s HTTP/%s\r\nHost: h\r\n\r\n" % (target, version), 1)
        assert isinstance(request, Request)
        assert (request.method, request.path, request.header(b"host")) == ("GET", path, b"h")


@pytest.mark.parametrize(
    "data, status, says",
    [
        (b"POST /metrics HTTP/1.1\r\nHost: h\r\n\r\n", 405, "POST is not served here, GET and HEAD are"),
        (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 405, "OPTIONS is not"),
        (b"X" * 100 + b" / HTTP/1.1\r\nHost: h\r\n\r\n", 405, "X" * 20 + " is not"),
        (b"GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400, "begins with /"),
        (b"GET ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n", 400, "begins with /"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "missing mandatory host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "found multiple host"),
        (b"GET / SPDY/1\r\n\r\n", 400, "no request of HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "transfer-encoding"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400, "bad content-length"),
        (b"GET /" + b"a" * HEAD_BYTES, 431, "at most 8192 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400, "write http:// in place of https://"),
        (b"\x00\x00\x00\x20\x00\x12\x00\x03", 400, "no request of HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1 is served here"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(data: bytes, status: int, says: str) -> None:
    for step in (1, 7, len(data)):
        refusal = outcome(data, step)
        assert isinstance(refusal, Refusal)
        assert refusal.status == status
        assert says in refusal.sentence
        assert ("Allow", "GET, HEAD") in refusal.headers or status != 405


def test_a_head_may_have_so_many_bytes_and_no_more() -> None:
    rest = HEAD_BYTES - len(GET) - len(b"X: \r\n")
    for more, is_served in ((0, True), (1, False)):
        data = GET[:-2] + b"X: " + b"a" * (rest + more) + b"\r\n\r\n"
        for step in (1, 1_000, len(data)):
            assert isinstance(outcome(data, step), Request if is_served else Refusal)


def test_what_follows_a_head_is_not_read() -> None:
    assert isinstance(outcome(GET + b"\0" * 100_000, 1 << 20), Request)


def test_a_refusal_has_no_secret_of_the_peer() -> None:
    data = b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic aHVzaA==\r\n: broken\r\n\r\n"
    refusal = outcome(data, len(data))
    assert isinstance(refusal, Refusal)
    assert "aHVzaA" not in refusal.sentence


@pytest.mark.parametrize("data", [b"", b"GET", GET[:-1]])
def test_the_end_of_the_connection_is_no_request(data: bytes) -> None:
    refusal = outcome(data, 1, has_ended=True)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400


HOSTILE = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from(
            [b"GET ", b"/", b" HTTP/1.1", b"\r\n", b"\n", b"Host: h", b": ", b" ", b"\0", b"\x16", b"\xff"]
        ),
        max_size=20,
    ).map(b"".join),
    st.builds(lambda at, more: GET[:at] + more + GET[at:], st.integers(0, len(GET)), st.binary(max_size=3)),
)


@settings(max_examples=share(200))
@given(HOSTILE, st.integers(1, 50))
def test_portions_make_no_difference_and_nothing_is_raised(data: bytes, step: int) -> None:
    results = [comparable(outcome(data, each, has_ended=True)) for each in (1, step, len(data) or 1)]
    assert results[0] == results[1] == results[2]
    assert results[0] is not None


# Answers


def answered(exchange: HttpExchange, refusal: Refusal) -> bytes:
    return exchange.refusal(refusal, "text/plain", b"no\n")


def test_an_answer_of_a_known_length() -> None:
    exchange = HttpExchange()
    exchange.receive(GET)
    text = exchange.head(200, [("Content-Type", "a/b")], 3) + exchange.data(b"abc") + exchange.end()
    head, _, body = text.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: a/b",
        b"Content-Length: 3",
        b"Cache-Control: no-store",
        b"X-Content-Type-Options: nosniff",
        b"Connection: close",
    ]
    assert body == b"abc"


@pytest.mark.parametrize("version, is_chunked", [(b"1.1", True), (b"1.0", False)])
def test_the_end_of_an_answer_is_told_by_its_framing(version: bytes, is_chunked: bool) -> None:
    exchange = HttpExchange()
    exchange.receive(b"GET / HTTP/%s\r\nHost: h\r\n\r\n" % version)
    head, body = exchange.head(200, [], None), exchange.data(b"abc") + exchange.end()
    assert (b"Transfer-Encoding: chunked" in head) == is_chunked
    assert b"Content-Length" not in head
    assert body == (b"3\r\nabc\r\n0\r\n\r\n" if is_chunked else b"abc")


def test_a_refusal_is_written_whatever_was_received() -> None:
    for data in (b"", b"GET", b"\0", b"POST / HTTP/1.1\r\nHost: h\r\n\r\n", b"a" * HEAD_BYTES, GET):
        exchange = HttpExchange()
        exchange.receive(data)
        text = answered(exchange, not_found("/x"))
        assert text.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert text.endswith(b"\r\n\r\nno\n")


def test_a_refusal_of_head_has_no_body() -> None:
    exchange = HttpExchange()
    exchange.receive(GET.replace(b"GET", b"HEAD"))
    text = exchange.refusal(FOREIGN_HOST, "text/plain", b"no\n", is_head=True)
    assert text.endswith(b"\r\n\r\n")
    assert b"Content-Length: 3" in text
