from headgate.gateway.app.ready_line import ready_line
from headgate.gateway.config import BrokerConfig


def test_the_ready_line() -> None:
    config = BrokerConfig.load("node.id=3\nlog.dirs=/tmp/x")
    line = ready_line(config, ["PLAINTEXT://127.0.0.1:40123", "INTERNAL://[::1]:40124"])
    assert line == "headgate ready PLAINTEXT://127.0.0.1:40123,INTERNAL://[::1]:40124 node.id=3 log.dirs=/tmp/x"
