"""`--command-config`: Kafka's client properties as the value of an option."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.security_option import MAX_FILE_BYTES, add_security_option

LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hush";'


def parsed(*words: str) -> ClientSecurity:
    parser = argparse.ArgumentParser()
    add_security_option(parser)
    add_security_option(parser, "--to-command-config", "to_security")
    found: ClientSecurity = parser.parse_args(words).security
    return found


def test_a_file_becomes_the_security_of_connections(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={LINE}\ngroup.id=g\n")
    security = parsed("--command-config", str(file))
    assert (security.protocol, security.mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert "hush" not in repr(security)
    assert parsed().protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    "content, sentence",
    [
        (None, "the file cannot be read: No such file or directory"),
        (b"\xff\xfe", "it is no text in UTF-8"),
        (b"x" * (MAX_FILE_BYTES + 1), "the file is larger than 1 MB"),
        (b"a=\\u00zz", "must be followed by four hexadecimal digits"),
        (b"security.protocol=TLS", "security.protocol=TLS does not exist"),
        (b"sasl.jaas.konfig=hush", "the nearest name is sasl.jaas.config"),
    ],
)
def test_a_file_that_cannot_be_used_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit) as end:
        parsed("--command-config", str(file))
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert f"argument --command-config: {file}: " in errors
    assert sentence in errors
    assert "hush" not in errors
