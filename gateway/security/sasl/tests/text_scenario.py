"""Names of Kerberos and JAAS lines that Kafka's own classes read; `text_of_kafka.jsonl` has their answers.

    cd gateway/security/sasl/tests
    python -m headgate.gateway.security.sasl.tests.text_scenario > questions
    java -cp "$ROOT/build/jars/broker/*" $ROOT/compat_tests/java/broker/src/SecurityAnswers.java questions answers
    python -m headgate.gateway.security.sasl.tests.text_scenario answers > text_of_kafka.jsonl

A line of the result is a list: the question, and Kafka's answer, or null where Kafka raises an exception.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

REALM = "REALM"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

RULES = [
    ["DEFAULT"],
    ["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"],
    ["RULE:[2:$1;$2](^.*;admin$)s/;admin$//g/L"],
    ["RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g"],
    ["RULE:[1:$1]s/a/b/"],
    ["RULE:[1:$1]s/a/b/g"],
    ["RULE:[1:$1]s/(.*)/$1x/g"],
    ["RULE:[1:$1]s/x*/-/g"],
    ["RULE:[1:$1]/L"],
    ["RULE:[1:$1]/U"],
    ["RULE:[1:$1]s/a/b/U"],
    ["RULE:[1:$1]s/a/b/g/U"],
    ["RULE:[1:$1]L"],
    ["RULE:[1:$0.$1]"],
    ["RULE:[1:$1@$0]"],
    ["RULE:[1:$2]"],
    ["RULE:[1:$]"],
    ["RULE:[1:x$1y$0z]"],
    ["RULE:[:$1]"],
    ["RULE:[1:$1"],
    ["RULE:[1:$1]junk"],
    ["default"],
    [""],
    ["RULE:[3:$1]"],
    ["RULE:[1:$1](a.*)"],
    ["RULE:[1:$1](A.*)", "RULE:[1:$1](a.*)s/a/\\$/"],
    ["RULE:[1:$1]s/a/$1/"],
    ["RULE:[1:$1]s/a/\\/"],
    ["RULE:[1:$1]s/(a)(b)?/$2$1/"],
    ["RULE:[2:$1]", "DEFAULT"],
    ["RULE:[2:$2@$1]"],
    ["RULE:[1:$1]s/a//"],
    ["RULE:[1:$1](^)"],
    ["DEFAULT", "RULE:[1:$1]"],
    ["RULE:[01:$1]"],
    ["RULE:[1:]"],
    ["RULE:[1:$1]s/[aeiou]/$0$0/g"],
    ["RULE:[1:$1]s/a/$11/"],
    ["RULE:[1:$1]s/a/b/gL"],
    ["RULE:[1:$1](.*)s/\\./_/g"],
    ["RULE:[1:$1]()"],
    ["RULE:[1:$1](é.*)"],
    ["RULE:[1:$1]s/^a|b$/q/g"],
]
NAMES = [
    "alice",
    "alice@REALM",
    "alice@OTHER",
    "alice/admin@REALM",
    "alice/admin",
    "a/b/c@REALM",
    "a@b@c",
    "@REALM",
    "a@",
    "/h@REALM",
    "App.svc/h@REALM",
    "aXaX@REALM",
    "a.b.a@OTHER",
    "ab@REALM",
    "été@REALM",
    "",
    "ALICE@REALM",
    "a/@REALM",
]
LINES = [
    f'{_MODULE} required username="a" password="b";',
    f"{_MODULE} required username='a' password=\"b'c\";",
    f"{_MODULE} REQUIRED;",
    f'{_MODULE} optional user_a="x" user_b="y" ;',
    f"{_MODULE} Sufficient;",
    f"{_MODULE} needed;",
    _MODULE,
    f"{_MODULE} required",
    f'{_MODULE} required a="b"',
    f"{_MODULE} required a=b;",
    f"{_MODULE} required a=5;",
    f"{_MODULE} required a=-5;",
    f"{_MODULE} required a=-;",
    f"{_MODULE} required a=b5;",
    f"{_MODULE} required a=5b;",
    f'{_MODULE} required a-b="c";',
    f'{_MODULE} required -a="c";',
    f'{_MODULE} required a.b="c";',
    f'{_MODULE} required a$b="c";',
    f'{_MODULE} required $b="c";',
    f"{_MODULE} required a=b.c;",
    f"{_MODULE} required a=.c;",
    f"{_MODULE} required a=b-c;",
    f"{_MODULE} required a=b_c;",
    f"{_MODULE} required a=_;",
    f"{_MODULE} required a=b/c;",
    f"{_MODULE} required a=b //c;\n;",
    f'{_MODULE} required a="b" /* c="d" */ e="f";',
    f'{_MODULE} required a="b" /* c="d" ;',
    f'{_MODULE} required a="//b";',
    f'{_MODULE} required a="b\\"c";',
    f'{_MODULE} required a="b\\\\";',
    f'{_MODULE} required a="\\101\\7\\0\\400\\1011";',
    f'{_MODULE} required a="\\a\\b\\f\\n\\r\\t\\v\\x\\/";',
    f'{_MODULE} required a="b\nc";',
    f'{_MODULE} required a="b\\\nc";',
    f'{_MODULE} required a="b',
    f'{_MODULE} required a="b;',
    f'{_MODULE} required a="";',
    f'{_MODULE} required a= "b";',
    f'{_MODULE} required a ="b";',
    f'{_MODULE} required\ta\n=\r\n"b"\n;',
    f'{_MODULE} required a="b" a="c";',
    f'{_MODULE} required a="b"; ',
    f'{_MODULE} required a="b"; {_MODULE} required;',
    f'{_MODULE} required a="b";;',
    "",
    " ",
    "/* x */",
    ";",
    f'"{_MODULE}" required;',
    f'{_MODULE} "required";',
    f'{_MODULE} required "a"="b";',
    f'{_MODULE} required a "=" "b";',
    f"{_MODULE} required a==b;",
    f'{_MODULE} required a="b",c="d";',
    f'{_MODULE} required a="p\u00e4ss\u20ac\U0001f600";',
    f'{_MODULE} required p\u00e4="b";',
    f"{_MODULE} required a=\u20ac;",
    f"{_MODULE} required a=b#c;",
    f"{_MODULE} required a=b@c;",
    f'{_MODULE} required user_a-b.c="x";',
    f'{_MODULE} required user_a@b="x";',
    f'{_MODULE} required "user_a@b"="x";',
    "5 required;",
    "= required;",
    f"{_MODULE} = required;",
    f'{_MODULE} required 5="b";',
    f'{_MODULE} required a="b" c;',
    f'{_MODULE} required a="b" c=;',
    f'{_MODULE} required a="b" =c;',
    f"{_MODULE} required a=\x85;",
    f'{_MODULE} required a="\x85";',
    f"{_MODULE} required a=\xa0b;",
    f"{_MODULE} required a=tr\x7fue;",
    f'{_MODULE} required;a="b";',
    f'{_MODULE} required a="b"c="d";',
    f"{_MODULE} required a='b\"c';",
    f"{_MODULE} required a=1.5.2;",
    f"{_MODULE} required a=1-2;",
    "com.sun.security.auth.module.JndiLoginModule required;",
    'com.example.Own required a="b";',
    f'{_MODULE} required a="x\\8y\\38z";',
]


def questions() -> Iterator[str]:
    """Lines for `SecurityAnswers.java`."""
    for rules in RULES:
        for name in NAMES:
            yield "\t".join(("name", _hex(REALM), _hex(name), ",".join(map(_hex, rules))))
    for line in LINES:
        yield f"jaas\t{_hex(line)}"


def read(line: str) -> list[object]:
    """The question and the answer of a line of `SecurityAnswers.java`."""
    kind, *fields, answer = line.split("\t")
    found: object = None
    if kind == "name":
        asked: list[object] = [_text(fields[1]), [_text(rule) for rule in fields[2].split(",")]]
        if answer.startswith("="):
            found = _text(answer[1:])
    else:
        asked = [_text(fields[0])]
        if answer.startswith("="):
            module, flag, *options = answer[1:].split(",")
            texts = [_text(option) for option in options]
            found = [_text(module), flag.upper(), dict(zip(texts[::2], texts[1::2], strict=True))]
    return [*asked, found]


def _hex(text: str) -> str:
    return text.encode().hex()


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode()


if __name__ == "__main__":
    lines = (
        questions() if len(sys.argv) == 1 else map(json.dumps, map(read, Path(sys.argv[1]).read_text().splitlines()))
    )
    sys.stdout.writelines(f"{line}\n" for line in lines)
