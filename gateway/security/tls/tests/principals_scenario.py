"""Names of clients with certificates: cases, and the recorder of the answers of Java and Kafka.

    python -m headgate.gateway.security.tls.tests.principals_scenario build/jars/broker build/jars/broker39

asks `compat_tests/java/broker/src/SslPrincipals.java` with the jars of Kafka 4.1 and of 3.9, and writes
`principals_of_kafka.txt`: a case a line, in JSON: [kind, question ..., answer]. An answer begins with `=`, or with
`!` before the exception. Both releases, and JDK 17, gave every answer alike.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).parent / "principals_of_kafka.txt"
PROGRAM = "compat_tests/java/broker/src/SslPrincipals.java"

UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, UNIVERSAL = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C
STRINGS = (UTF8, PRINTABLE, T61, IA5, GENERAL, BMP)
OTHERS = (UNIVERSAL, 0x12, 0x1A, 0x17, 0x04, 0x03, 0x30)
CN, OU, COUNTRY, EMAIL = "2.5.4.3", "2.5.4.11", "2.5.4.6", "1.2.840.113549.1.9.1"
TYPES = (
    CN, COUNTRY, "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", OU, "2.5.4.12", "2.5.4.4", "2.5.4.5", "2.5.4.42", "2.5.4.43",
    "2.5.4.44", "2.5.4.46", "2.5.4.13", "2.5.4.17", "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25",
    "0.9.2342.19200300.100.1.3", EMAIL, "1.2.3.4", "2.999.1", "2.40.5", "0.0", "1.3.6.1.4.1.42.2.11.2.1",
)  # fmt: skip

Attribute = tuple[str, int, bytes]


def element(tag: int, *parts: bytes) -> bytes:
    """One DER element."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def object_identifier(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        content += bytes(reversed(digits))
    return element(0x06, content)


def name(*relative_names: list[Attribute]) -> bytes:
    """A distinguished name in DER, also one that no library would make."""
    return element(
        0x30,
        *(
            element(
                0x31, *(element(0x30, object_identifier(type_), element(tag, value)) for type_, tag, value in names)
            )
            for names in relative_names
        ),
    )


ODD_VALUES = (
    b"", b" ", b" a ", b"  ", b"#a", b"a#b", b'a,b+c=d<e>f;g"h\\i', b"\ra\r", b"\na\n", b"\t a", b"a\0b", b"a  b", b" ,",
    b"*'()-./:?", b"caf\xc3\xa9", b"caf\xe9", b"\xff\xfea", b"\xc2\xa0a", b"\xf0\x9f\x98\x80", b"a\xed\xa0\x80b",
    b"\xed\xa0", b"\xf0\x9f\x98", b"\xe2\x82", b"\xe0\x9f\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\0c\0a\0f\0\xe9",
    b"x" * 200,
)  # fmt: skip
PIECES = [
    *(b" ", b"\r", b"\n", b"\0", b"#", b",", b"\\", b"a", b"Z", b"\xff", b"\xc3", b"\xa9", b"\xed", b"\xa0", b"\x80"),
    *(b"\xf0", b"\x9f", b"\x98", b"\xe2", b"\x82", b"\xe0", b"\xf4", b"\xc0", b'"', b"=", b"+", b"\xef\xbf\xbd"),
]


def names() -> list[bytes]:
    chance = random.Random(35)
    drawn = [
        name(
            *(
                [
                    (
                        chance.choice(TYPES[:12]),
                        chance.choice((*STRINGS, UNIVERSAL)),
                        b"".join(chance.choices(PIECES, k=6)),
                    )
                    for _ in range(chance.choice((1, 1, 2, 3)))
                ]
                for _ in range(chance.randrange(1, 4))
            )
        )
        for _ in range(100)
    ]
    return [
        *(name([(type_, UTF8, b"a b")]) for type_ in TYPES),
        *(name([(CN, tag, b"caf\xc3\xa9")]) for tag in (*STRINGS, *OTHERS)),
        *(name([(CN, UTF8, value)]) for value in ODD_VALUES),
        name([(EMAIL, IA5, b"a@b")], [(CN, UTF8, b"a")]),
        name([(CN, UTF8, b"a")], [(OU, UTF8, b"b")], [(COUNTRY, PRINTABLE, b"DE")]),
        name([(CN, UTF8, b"a"), (OU, UTF8, b"b")], [(COUNTRY, PRINTABLE, b"DE")]),
        name([(OU, UTF8, b"b"), (CN, UTF8, b"a"), ("1.2.3", UTF8, b"z")], [(COUNTRY, PRINTABLE, b"DE")]),
        name(),
        name([]),
        *drawn,
    ]


SERVICE = "CN=kafka1,OU=ServiceUsers,O=Org,C=US"
LETTERS = "abcdefghijk"
RULES: tuple[tuple[str, str], ...] = (
    *((rules, SERVICE) for rules in ("", " ", "DEFAULT", " DEFAULT , ", "default", "DEFAULTx", ",,", ",DEFAULT")),
    *((rules, SERVICE) for rules in ("DEFAULT,DEFAULT", "DEFAULT DEFAULT", "\u00a0DEFAULT", "RULE:CN.*/y/\u00a0")),
    ("DEFAULT", ""),
    *((f"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/{case}", SERVICE) for case in ("", "L", "U", "l", "LU", " L", "L x", "L ")),
    *((f"RULE:{pattern}/x/", SERVICE) for pattern in (".*", ".+", "^.*$", ".*?", "x", "", " CN.*", "CN.*,|.*", "(", "[,")),
    *(
        (f"RULE:CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/{replacement}/L", SERVICE)
        for replacement in ("$1@$2@$5", "$1@$5@$6", "$12", "$01", "$0", "$4$3", "", " y ", "\\$1", "a\\/b", "a\\\\", "\\x")
    ),
    *((f"RULE:CN=(.*?),.*/{replacement}/", SERVICE) for replacement in ("$", "a$b", "a\\", "${1}", "$1$", "$1\\,x")),
    *(("RULE:CN=.*/" + replacement + "/", SERVICE) for replacement in ("$1", "$0")),
    *(("RULE:CN=(?<n>.*?),.*/" + replacement + "/", SERVICE) for replacement in ("${n}", "${m}", "${n", "$1${n}")),
    *((rules, SERVICE) for rules in ("RULE:x/y/,DEFAULT", "RULE:x/y", "RULE:x,DEFAULT", "RULE:x/y/RULE:x/z/")),
    *((rules, SERVICE) for rules in (" RULE:CN.*/y/L , DEFAULT", "RULE:CN.*/y/L DEFAULT", "RULE:CN=(a|kafka1)(.*)/$1-$2/")),
    *((rules, SERVICE) for rules in ("RULE:CN=(.*),OU=(.*)/$1/", "RULE:CN=kafka1[,]OU.*/y/", "RULE:CN=\\w+,.*/x/")),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,DEFAULT", "CN=A,OU=B,O=C"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "O=x,cn=Kafka.1,C=y"),
    *((f"RULE:CN=(.*)/$1/{case}", f"CN={value}") for case in "LU" for value in ("straße", "ΑΣ", "İ", "ǆ", "ŉ", "é")),
    *(("RULE:CN=(.*)/$1/", f"CN=a{blank}b") for blank in "\n\r\u0085\u2028\u2029\t\v"),
    ("RULE:CN=a$/x/", "CN=a\n"),
    ("RULE:CN=(a)?b/x$1y/", "CN=b"),
    ("RULE:CN=(a)|(b)/x$1$2y/", "CN=a"),
    *((f"RULE:{pattern}/<$0>/", "aaa") for pattern in ("a*", "a+?", "a|^", "(a|b)*", "a{3}", "a{2,}", "a{1,3}", "(?:aaa)")),
    *((f"RULE:{pattern}/<$0>/", "a") for pattern in ("a|^", "a|$", "^", "\\Aa\\z", "\\x61", "\\p{L}", "\\x{61}", "[\\p{L}]", "\\pL", "[\\]a]", "a{,2}")),
    *((f"RULE:{pattern}/<$0>/", "é,é") for pattern in ("é*,é", ".*?", ",|é", "[^,]*,[^,]*", ".*")),
    ("RULE:\\//x/", "/"),
    ("RULE:a\\,b/x/", "a,b"),
    ("RULE:a/b\\,c/", "a"),
    *(
        ("RULE:(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)/" + replacement + "/", LETTERS)
        for replacement in ("$11-$1-$12-$99", "$10$9", "$111", "$011")
    ),
    *(("RULE:(a)/" + replacement + "/", "a") for replacement in ("$10", "$10$9", "$2147483648", "$1\\$9", "\\\\$9")),
    # Legal in Java, refused here
    *(("RULE:" + pattern + "/x/", "aa") for pattern in ("a++", "(?i)AA", "(a)\\1", "(?=a)aa", "[a-c&&[^b]]+", "[a[b]]+", "\\Qaa\\E")),
)  # fmt: skip


def recorded(kind: str) -> list[list[str]]:
    """The recorded cases of a kind, each with its answer as the last item."""
    return [case[1:] for case in map(json.loads, RECORD.read_text().splitlines()) if case[0] == kind]


def ask(jars: str, questions: list[str]) -> list[str]:
    command = ("java", "-cp", f"{jars}/*", PROGRAM)
    answers = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, check=True)
    return [line[0] + bytes.fromhex(line[1:]).decode() for line in answers.stdout.splitlines()]


def record(*releases: str) -> None:
    cases: list[tuple[str, ...]] = [("dn", encoded.hex()) for encoded in names()]
    cases += [("map", rules, of) for rules, of in RULES]
    questions = [
        " ".join((kind, *(texts if kind == "dn" else (text.encode().hex() for text in texts))))
        for kind, *texts in cases
    ]
    answers, *others = (ask(jars, questions) for jars in releases)
    assert all(other == answers for other in others), "the releases differ: record each by its name"
    lines = [json.dumps([*case, answer]) for case, answer in zip(cases, answers, strict=True)]
    RECORD.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record(*sys.argv[1:])
