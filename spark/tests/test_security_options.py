"""TLS and logins in options of Spark: their names, their way to an executor, and their secrets."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headgate.protocol.security.client_security import InvalidClientSecurity
from headgate.protocol.security.tls.tests.certificates import Authority
from headgate.spark.load.origin import LoadOrigin
from headgate.spark.reading.opening import Origin
from headgate.spark.security_options import client_options, options_of, security_of
from headgate.spark.sink.sink import Sink
from headgate.spark.source.options import parse

LINE = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="hush";'
LOGIN = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.SASL.jaas.config": LINE,
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.certificates": Authority().pem(),
}


def test_options_are_those_of_kafka_in_any_case() -> None:
    security = security_of({**LOGIN, "subscribe": "t", "kafka.group.id": "g"})
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-256")
    assert options_of(security) == {name.lower(): value for name, value in LOGIN.items()}
    assert security_of({}).protocol == "PLAINTEXT"


def test_a_file_of_properties_becomes_options(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={LINE}\ngroup.id=g"
    )
    options = client_options(str(file))
    assert sorted(options) == ["kafka.sasl.jaas.config", "kafka.sasl.mechanism", "kafka.security.protocol"]
    assert security_of(options).mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize(
    "content, sentence",
    [
        (None, "the file cannot be read: No such file or directory"),
        (b"sasl.jaas.config=hush\xff", "the file cannot be read: it is no text in UTF-8"),
        (b"#" * ((1 << 20) + 1), "the file is larger than 1 MB"),
        (b"security.protocol=TLS", "security.protocol=TLS does not exist"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidClientSecurity) as refused:
        client_options(str(file))
    assert str(refused.value).startswith(f"{file}: {sentence}")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("is_copied", [False, True])
def test_no_text_of_a_plan_has_a_secret(is_copied: bool) -> None:
    security = security_of(LOGIN)
    read = parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **LOGIN})
    for value in (security, read, Origin("h:1", security=security), LoadOrigin("h:1", (), security)):
        copy = pickle.loads(pickle.dumps(value)) if is_copied else value
        assert copy == value
        assert "hush" not in repr(copy)
        assert "SCRAM-SHA-256" in repr(copy)
    sink = Sink("h:1", security=security)
    assert "hush" not in repr(sink)
    assert pickle.loads(pickle.dumps(sink)).security == security


def test_an_executor_reads_the_stores_that_it_has(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(Authority().pem())
    security = security_of(
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}
        | {"kafka.ssl.truststore.location": str(store)}
    )
    data = pickle.dumps(security)
    store.unlink()
    copy = pickle.loads(data)
    with pytest.raises(InvalidClientSecurity, match=r"ssl\.truststore\.location=.*: there is no such file"):
        copy.ssl_context()


def test_a_sentence_has_the_names_of_options() -> None:
    with pytest.raises(InvalidClientSecurity) as refused:
        security_of({**LOGIN, "kafka.sasl.mechanism": "PLAIN"})
    text = str(refused.value)
    assert text.startswith("kafka.sasl.jaas.config: the login module org.apache.kafka.common.security.scram.")
    assert "hush" not in text


@pytest.mark.parametrize("path", ["my-ssl.pem", "ssl.pem", "x=ssl.pem", "/etc/ssl.d/sasl.pem"])
def test_a_sentence_has_the_path_of_the_option(path: str) -> None:
    options = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}
    with pytest.raises(InvalidClientSecurity) as refused:
        security_of(options | {"kafka.ssl.truststore.location": path})
    assert str(refused.value).startswith(f"kafka.ssl.truststore.location={path}: there is no such file")
