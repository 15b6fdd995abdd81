"""Spark over SASL and TLS: both formats, batch and stream; driver and tasks log in, and no plan has the password."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import new_topic
from compat_tests.security.client_security import write_properties
from compat_tests.security.login_broker import EVERY, PASSWORD, USER, LoginBroker

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured by its command line")
FORMATS = ("kafka", "headgate")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOKEN = "a token"  # noqa: S105  in place of a mechanism
QUICK = [("headgate", TOKEN)]
WAYS = [(name, mechanism) for name in FORMATS for mechanism in (*MECHANISMS, TOKEN)] if SOAK else QUICK
REFUSAL_LIMIT_S = 20.0
"""A third of what a broker that cannot be reached costs; the first job of a session begins Spark's Python too."""
WRONG = "no secret of alice"
ROWS = 200
PARTITIONS = 2
_MODULES = "org.apache.kafka.common.security"


def options_of(logins: LoginBroker, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Options for a login, with the trusted certificates themselves: tasks need no file."""
    if mechanism == TOKEN:
        token = new_token(logins)
        words = f'username="{token["token_id"]}" password="{token["hmac"]}" tokenauth="true"'
        login = options_of(logins, "SCRAM-SHA-256")
        return {**login, "kafka.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required {words};"}
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    words = f'username="{USER}" password="{password}"'
    if mechanism == "OAUTHBEARER":
        module, words = "oauthbearer.OAuthBearerLoginModule", f'unsecuredLoginStringClaim_sub="{USER}"'
    return {
        "kafka.bootstrap.servers": logins.address(EVERY),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"{_MODULES}.{module} required {words};",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": (logins.certificates / "ca.pem").read_text(),
    }


def new_token(logins: LoginBroker) -> dict[str, str]:
    """A delegation token of the user."""
    file = logins.certificates / "of_tokens.properties"
    login = {name.removeprefix("kafka."): value for name, value in options_of(logins, "SCRAM-SHA-512").items()}
    login |= {"ssl.truststore.location": str(logins.certificates / "ca.pem")}
    del login["ssl.truststore.certificates"]
    words = ["tokens", "create", "--json", "--bootstrap-server", logins.address(EVERY)]
    command = [*installed_command(), *words, "--command-config", write_properties(file, login)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def rows_of(spark: Any) -> Any:
    return spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id * id AS STRING) AS value")


def values(rows: Any) -> list[tuple[bytes, bytes]]:
    return sorted((bytes(row.key), bytes(row.value)) for row in rows.select("key", "value").collect())


def plan_of(rows: Any) -> str:
    """All that `explain` shows of a frame or a query."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        rows.explain(True)
    assert "== Physical Plan ==" in shown.getvalue()
    return shown.getvalue()


@pytest.mark.parametrize("format_name, mechanism", WAYS)
def test_a_batch_and_a_stream_log_in(
    logins: LoginBroker, spark: Any, tmp_path: Path, format_name: str, mechanism: str
) -> None:
    source, target = (new_topic(logins.bootstrap, PARTITIONS) for _ in range(2))
    login = options_of(logins, mechanism)
    rows_of(spark).write.mode("append").format(format_name).options(**login).option("topic", source).save()
    expected = [(str(number).encode(), str(number * number).encode()) for number in range(ROWS)]
    for name in FORMATS:  # each reads what the other one has written
        batch = spark.read.format(name).options(**login).option("subscribe", source).load()
        assert values(batch) == sorted(expected)
        assert "password" not in plan_of(batch)
    reader = spark.readStream.format(format_name).options(**login).option("subscribe", source)
    stream = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = stream.writeStream.format(format_name).options(**login, topic=target).queryName(f"copy-{source}")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert values(spark.read.format("headgate").options(**login, subscribe=target).load()) == sorted(expected)
    # Of the format kafka, Spark shows all options in the plan of a stream before it starts
    shown = plan_of(query) + (plan_of(stream) if format_name == "headgate" else "")
    assert "kafka.sasl.mechanism" in shown
    secret = login["kafka.sasl.jaas.config"].partition('password="')[2].partition('"')[0] or PASSWORD
    assert secret not in shown
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_wrong_password_ends_a_read_and_a_write(logins: LoginBroker, spark: Any) -> None:
    topic = new_topic(logins.bootstrap, 1)
    login = options_of(logins, "SCRAM-SHA-256", WRONG)
    read = spark.read.format("headgate").options(**login, subscribe=topic)
    write = rows_of(spark).write.mode("append").format("headgate").options(**login, topic=topic)
    for run in (lambda: read.load().collect(), write.save):
        began_s = time.monotonic()
        with pytest.raises(Exception, match="the broker refuses the login by SCRAM-SHA-256: ") as refused:
            run()
        assert time.monotonic() - began_s < REFUSAL_LIMIT_S
        assert WRONG not in str(refused.value)


def test_an_option_that_is_misspelt_is_refused(logins: LoginBroker, spark: Any) -> None:
    login = {name.replace("jaas.config", "jaas.conf"): value for name, value in options_of(logins, "PLAIN").items()}
    with pytest.raises(Exception, match=r"the nearest name is kafka\.sasl\.jaas\.config") as refused:
        spark.read.format("headgate").options(**login, subscribe="t").load()
    assert PASSWORD not in str(refused.value)
