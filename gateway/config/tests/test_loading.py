"""Reading settings: answers for every line, all problems at once."""

from functools import partial

from headgate.gateway.config import loading
from headgate.gateway.config.definition import Effect
from headgate.gateway.config.loading import ConfigError
from headgate.gateway.config.providers.sources import ProcessSources

load = partial(loading.load, sources=ProcessSources())


def test_overrides_win_and_defaults_fill() -> None:
    loaded = load("num.partitions=3\nfetch.max.bytes = 2048", {"num.partitions": "5"}, "a.properties")
    assert loaded.values["num.partitions"] == 5
    assert loaded.values["fetch.max.bytes"] == 2048
    assert loaded.values["min.insync.replicas"] == 1
    assert not loaded.problems


def test_overrides_may_be_texts() -> None:
    loaded = load("", ["num.partitions=5", "listeners = PLAINTEXT://:1?a=b", "nothing"], "f")
    assert loaded.values["num.partitions"] == 5
    assert loaded.given["listeners"].text == " PLAINTEXT://:1?a=b"
    assert loaded.problems == ["override nothing: there is no '='; write --override name=value"]


def test_every_problem_is_told_with_its_line() -> None:
    loaded = load("num.partitions=0\nnum.io.thread=1\n\nauto.create.topics.enable=yes", {"nod.id": "1"}, "a.properties")
    assert loaded.problems == [
        "a.properties line 1: num.partitions=0: allowed is a whole number from 1 to 2147483647",
        "a.properties line 2: unknown setting 'num.io.thread': the nearest name is num.io.threads",
        "a.properties line 4: auto.create.topics.enable=yes: allowed is true or false",
        "override: unknown setting 'nod.id': the nearest name is node.id",
    ]
    assert str(ConfigError(loaded.problems)).count("\n") == 3


def test_every_line_is_answered() -> None:
    text = "num.partitions=3\nnum.io.threads=8\ntransaction.two.phase.commit.enable=true\nssl.key.password=hush"
    text += "\nauthorizer.class.name=\nnum.partitions=4"
    loaded = load(text, {}, "f")
    assert [(answer.name, answer.effect) for answer in loaded.answers] == [
        ("num.partitions", Effect.FULL),
        ("num.io.threads", Effect.NONE),
        ("transaction.two.phase.commit.enable", Effect.PENDING),
        ("ssl.key.password", Effect.FULL),
        ("authorizer.class.name", Effect.FULL),
        ("num.partitions", Effect.FULL),
        ("num.partitions", Effect.NONE),
    ]
    assert str(loaded.answers[0]) == "f line 1: num.partitions=3"
    assert str(loaded.answers[1]).startswith("f line 2: num.io.threads: accepted, no effect here, because one loop")
    assert str(loaded.answers[2]).startswith(
        "f line 3: transaction.two.phase.commit.enable: accepted, no effect yet, because a client"
    )
    assert (
        str(loaded.answers[6])
        == "f line 1: num.partitions: accepted, no effect here, because f line 6 sets it again, and the last one counts"
    )


def test_secrets_are_in_no_sentence() -> None:
    text = "ssl.keystore.password=hush\nssl.keystore.pasword=hush\nlistener.name.x.sasl.jaas.config=hush"
    loaded = load(text, {"sasl.jaas.config": "hush"}, "f")
    assert len(loaded.problems) == 1
    assert "the nearest name is ssl.keystore.password" in loaded.problems[0]
    assert (
        "hush" not in f"{loaded.problems} {loaded.answers} {loaded.values} {[str(answer) for answer in loaded.answers]}"
    )


def test_a_setting_that_cannot_be_ignored_is_refused() -> None:
    loaded = load("principal.builder.class=com.example.Builder\nport=9092", {}, "f")
    first, second = loaded.problems
    assert first.startswith("f line 1: principal.builder.class=com.example.Builder: names a Java class")
    assert second == "f line 2: port=9092: Kafka 3.0 removed it; write listeners=PLAINTEXT://:<port>"


def test_a_broken_file_is_a_problem_not_a_crash() -> None:
    assert load("a=\\u12", {}, "f").problems == ["f line 1: \\u must be followed by four hexadecimal digits, not '12'"]


def test_a_problem_does_not_show_a_secret() -> None:
    loaded = load("ssl.key.password=hush\nnode.id=1", (), "f")
    loaded.problem("ssl.key.password", "it is wrong")
    loaded.problem("node.id", "it is taken")
    assert loaded.problems == ["f line 1: ssl.key.password=[hidden]: it is wrong", "f line 2: node.id=1: it is taken"]
