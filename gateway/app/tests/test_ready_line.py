from headgate.gateway.app.ready_line import http_endpoints_of, ready_line
from headgate.gateway.config import BrokerConfig


def test_the_ready_line() -> None:
    config = BrokerConfig.load("node.id=3\nlog.dirs=/tmp/x")
    line = ready_line(config, ["PLAINTEXT://127.0.0.1:40123", "INTERNAL://[::1]:40124"])
    assert line == "headgate ready PLAINTEXT://127.0.0.1:40123,INTERNAL://[::1]:40124 node.id=3 log.dirs=/tmp/x"
    assert http_endpoints_of(line) == []


def test_the_ready_line_has_the_addresses_of_http() -> None:
    config = BrokerConfig.load("log.dirs=/tmp/a http=b,/tmp/c")
    http = ["http://127.0.0.1:9644", "https://[::]:9645"]
    line = ready_line(config, ["PLAINTEXT://127.0.0.1:1"], http)
    assert line == (
        "headgate ready PLAINTEXT://127.0.0.1:1 node.id=0 http=http://127.0.0.1:9644,https://[::]:9645"
        " log.dirs=/tmp/a http=b,/tmp/c"
    )
    assert http_endpoints_of(line) == http
    assert http_endpoints_of(ready_line(config, [])) == []
