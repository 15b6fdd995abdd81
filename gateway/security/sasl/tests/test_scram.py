"""SCRAM: the vectors of the RFC, an independent client, decoys of unknown users, and faults of clients."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from itertools import count

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge, SaslComputation
from headgate.gateway.security.sasl.scram import MAX_NONCE_LENGTH, ScramExchange, read_client_first
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials, TokenCredential, UserCredentials
from headgate.gateway.security.sasl.tests.exchanges import CREDENTIALS, GUESSED, made_credential
from headgate.gateway.security.sasl.tests.sasl_scenario import ScramClient
from headgate.protocol.security.sasl.scram_keys import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)

SHA_256 = ScramMechanism.SCRAM_SHA_256


def exchange(mechanism: ScramMechanism = SHA_256, credentials: ScramCredentials = CREDENTIALS) -> ScramExchange:
    return ScramExchange(mechanism, credentials, lambda: "servernonce")


def stepped(exchange: ScramExchange, message: bytes) -> Challenge | Authenticated:
    """The next step, the computation of a thread included."""
    step = exchange.step(message)
    return step.run() if isinstance(step, SaslComputation) else step


def login(
    client: ScramClient,
    exchange: ScramExchange,
    header: str = "n,,",
    extensions: str = "",
) -> Authenticated:
    challenge = stepped(exchange, client.first(header, extensions))
    assert isinstance(challenge, Challenge)
    done = stepped(exchange, client.final(challenge.token))
    assert isinstance(done, Authenticated)
    return done


def test_the_vector_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(SHA_256, salted_password(SHA_256, b"pencil", salt, 4096), salt, 4096)
    credentials = ScramCredentials(lambda: {"user": {SHA_256: credential}}, b"")
    scram = ScramExchange(SHA_256, credentials, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert scram.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.step(final) == Authenticated("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("name", SCRAM_MECHANISMS)
def test_an_independent_client_logs_in_and_knows_the_broker(name: str) -> None:
    client = scramp.ScramClient([name], "alice", "secret of alice")
    scram = exchange(SCRAM_MECHANISMS[name])
    challenge = stepped(scram, client.get_client_first().encode())
    client.set_server_first(challenge.token.decode())
    done = stepped(scram, client.get_client_final().encode())
    client.set_server_final(done.token.decode())
    assert done == Authenticated("alice", done.token)


def test_an_independent_client_is_refused_with_a_wrong_password() -> None:
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "wrong")
    scram = exchange()
    client.set_server_first(stepped(scram, client.get_client_first().encode()).token.decode())
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        scram.step(client.get_client_final().encode())


def test_an_unknown_user_gets_a_stable_challenge_of_its_own() -> None:
    challenges = [stepped(exchange(), f"n,,n={user},r=abc".encode()) for user in ("carol", "carol", "dave")]
    assert challenges[0] == challenges[1] != challenges[2]


def test_an_unknown_user_fails_as_a_wrong_password_does() -> None:
    texts = []
    for user in ("alice", "carol"):
        with pytest.raises(AuthenticationFailed) as error:
            login(ScramClient("sha256", user, "wrong"), exchange())
        texts.append((str(error.value), error.value.client_message))
    assert texts[0] == texts[1] == ("Invalid client credentials", None)


def test_an_unknown_user_takes_the_hmacs_of_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, str]] = []

    def digest(key: bytes, message: bytes, name: str) -> bytes:
        made.append((len(key), name))
        return hmac.new(key, message, name).digest()

    monkeypatch.setattr(hmac, "digest", digest)
    of_users = []
    for user in ("alice", "carol"):
        made.clear()
        with pytest.raises(AuthenticationFailed):
            login(ScramClient("sha256", user, "wrong"), exchange())
        of_users.append(list(made))
    assert of_users[0] == of_users[1]
    assert {(len(b"decoys"), "sha512"), (32, "sha256")} <= set(of_users[0])


def test_no_password_of_a_decoy_logs_in() -> None:
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        login(ScramClient("sha256", "carol", "guessed"), exchange(credentials=GUESSED))


def test_a_decoy_has_the_iterations_of_most_users() -> None:
    users: UserCredentials = {name: {SHA_256: made_credential(SHA_256, "x", iterations)}
             for name, iterations in (("a", 8192), ("b", 8192), ("c", 4096))}  # fmt: skip
    credentials = ScramCredentials(lambda: users, b"key")
    assert credentials.decoy(SHA_256, "d").iterations == 8192
    users = {"c": users["c"]}
    assert credentials.decoy(SHA_256, "d").iterations == 4096


def test_a_decoy_depends_on_the_key_of_the_cluster() -> None:
    salts = {ScramCredentials(dict, key).decoy(SHA_256, "carol").salt for key in (b"a", b"b")}
    assert len(salts) == 2


def test_a_delegation_token_logs_its_owner_in() -> None:
    salts: list[bytes] = []

    def begin(_mechanism: ScramMechanism, token_id: str, salt: bytes) -> Callable[[], TokenCredential]:
        salts.append(salt)
        return lambda: TokenCredential("bob" if token_id == "id" else None, made_credential(SHA_256, "the hmac"), 123)

    def log_in(token_id: str) -> Authenticated:
        scram = ScramExchange(SHA_256, CREDENTIALS, lambda: "n", begin)
        return login(ScramClient("sha256", token_id, "the hmac"), scram, extensions=",tokenauth=TRUE")

    done = log_in("id")
    assert (done.name, done.expires_at_ms, done.is_by_delegation_token) == ("bob", 123, True)
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        log_in("another")
    assert salts == [CREDENTIALS.decoy(SHA_256, name).salt for name in ("id", "another")]


def test_a_user_is_no_delegation_token() -> None:
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        login(ScramClient("sha256"), exchange(), extensions=",tokenauth=true")


def test_a_credential_with_few_iterations_is_not_used() -> None:
    weak = ScramCredentials(lambda: {"alice": {SHA_256: made_credential(SHA_256, "x", 4095)}}, b"")
    with pytest.raises(AuthenticationFailed, match="4095 iterations"):
        login(ScramClient("sha256"), exchange(credentials=weak))


def test_a_nonce_is_bounded() -> None:
    read_client_first(b"n,,n=a,r=" + b"x" * MAX_NONCE_LENGTH)
    with pytest.raises(AuthenticationFailed, match="longer than"):
        read_client_first(b"n,,n=a,r=" + b"x" * (MAX_NONCE_LENGTH + 1))


@pytest.mark.parametrize("nonce", ["servernonce", "xabcdefservernonce", "abcdef"])
def test_another_nonce_than_that_of_the_challenge_is_refused(nonce: str) -> None:
    client, scram = ScramClient("sha256"), exchange()
    challenge = stepped(scram, client.first())
    with pytest.raises(AuthenticationFailed, match="Invalid client nonce"):
        scram.step(client.final(challenge.token, other=nonce))


def test_nothing_follows_the_end_of_an_exchange() -> None:
    scram = exchange()
    login(ScramClient("sha256"), scram)
    with pytest.raises(AuthenticationFailed, match="follows the end"):
        scram.step(ScramClient("sha256").first())


def test_an_escaped_name_has_its_characters() -> None:
    assert read_client_first(b"n,,n=a=2Cb=3D2C,r=x").user == "a,b=2C"


def test_no_text_has_a_key() -> None:
    credential = ScramCredential(b"salty", b"stored", b"server", 4096)
    text = f"{credential!r}{credential}{TokenCredential('a', credential, 1)}"
    assert not any(word in text for word in ("salty", "stored", "server"))


@pytest.mark.slow
@given(st.binary() | st.from_regex(rb"(n,,)?(n=)?[a-z=,\x01-\xff]*,r=.*(,p=)?", fullmatch=True), st.binary())
def test_any_bytes_are_answered_or_refused(first: bytes, second: bytes) -> None:
    scram, numbers = exchange(), count()
    for message in (first, second):
        try:
            step = scram.step(message)
        except AuthenticationFailed:
            continue
        assert isinstance(step, Challenge)
        assert next(numbers) == 0
