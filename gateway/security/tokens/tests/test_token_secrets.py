"""The secrets of tokens: as Kafka makes them, found by themselves, and good for a login until the token's end."""

from __future__ import annotations

import base64

import pytest

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge, SaslComputation
from headgate.gateway.security.sasl.scram import ScramExchange
from headgate.gateway.security.sasl.tests.exchanges import CREDENTIALS
from headgate.gateway.security.sasl.tests.sasl_scenario import ScramClient
from headgate.gateway.security.tokens.delegation_token import DelegationToken, Tokens
from headgate.gateway.security.tokens.token_secrets import TokenSecrets
from headgate.protocol.security.sasl.scram_keys import MIN_ITERATIONS, ScramMechanism
from headgate.protocol.steps import finish

KEY = "a secret key"
TOKEN = DelegationToken("id", "User:alice:b", "User:b", (), 1, 300, 200)
OTHER = TOKEN._replace(token_id="other")
SHA_256 = ScramMechanism.SCRAM_SHA_256


class Cluster:
    """Tokens, and a time."""

    def __init__(self, *tokens: DelegationToken) -> None:
        self.tokens: Tokens = {token.token_id: token for token in tokens}
        self.now_ms = 100
        self.secrets = TokenSecrets(KEY, lambda: self.tokens, lambda: self.now_ms)

    def log_in(self, token_id: str, secret: bytes, mechanism: ScramMechanism = SHA_256) -> Authenticated:
        exchange = ScramExchange(mechanism, CREDENTIALS, lambda: "n", self.secrets.begin_login)
        client = ScramClient(mechanism.hash_name, token_id, base64.b64encode(secret).decode())
        computation = exchange.step(client.first(extensions=",tokenauth=true"))
        assert isinstance(computation, SaslComputation)
        challenge = computation.run()
        assert isinstance(challenge, Challenge)
        done = exchange.step(client.final(challenge.token))
        assert isinstance(done, Authenticated)
        return done


def test_a_secret_is_the_hmac_of_the_id() -> None:
    """`tokens_scenario` compares with the secrets that Kafka has made."""
    assert len(Cluster().secrets.hmac_of("id")) == 64
    assert Cluster().secrets.hmac_of("id").hex().startswith("97169419bb1aee15")


def test_a_token_is_found_by_its_secret_alone() -> None:
    secrets = Cluster().secrets

    def find(tokens: Tokens, secret: bytes) -> str | None:
        return finish(secrets.find(tokens, secret))

    both: Tokens = {"id": TOKEN, "other": OTHER}
    assert find(both, secrets.hmac_of("id")) == "id"
    assert find({"other": OTHER}, secrets.hmac_of("id")) is None
    assert find({"other": OTHER}, secrets.hmac_of("other")) == "other"
    assert find(both, secrets.hmac_of("id")) == "id"
    for wrong in (b"", b"x" * 64, secrets.hmac_of("id")[:32], secrets.hmac_of("third")):
        assert find(both, wrong) is None


def test_many_secrets_are_made_in_steps() -> None:
    secrets = Cluster().secrets
    tokens = {str(number): TOKEN._replace(token_id=str(number)) for number in range(200)}
    first, second = (secrets.find(tokens, secrets.hmac_of(name)) for name in ("150", "x"))
    assert [next(first), next(second), next(first)] == [None, None, None]
    assert (finish(second), finish(first)) == (None, "150")
    assert finish(secrets.find({}, secrets.hmac_of("150"))) is None


def test_a_search_among_older_tokens_loses_no_new_token() -> None:
    secrets = Cluster().secrets
    older = {str(number): TOKEN._replace(token_id=str(number)) for number in range(100)}
    newer = {f"new {number}": TOKEN._replace(token_id=f"new {number}") for number in range(100)} | older
    slow, quick = secrets.find(newer, secrets.hmac_of("new 0")), secrets.find(older, secrets.hmac_of("0"))
    next(slow)
    assert finish(quick) == "0"
    assert finish(slow) == "new 0"
    assert finish(secrets.find(newer, secrets.hmac_of("new 1"))) == "new 1"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_logs_its_owner_in_until_its_end(mechanism: ScramMechanism) -> None:
    cluster = Cluster(TOKEN)
    for _ in range(2):  # the second time from memory
        done = cluster.log_in("id", cluster.secrets.hmac_of("id"), mechanism)
        assert (done.name, done.expires_at_ms, done.is_by_delegation_token) == ("alice:b", 200, True)


@pytest.mark.parametrize("case", ["another secret", "no such token", "expired", "gone", "no user"])
def test_other_tokens_log_nobody_in(case: str) -> None:
    cluster = Cluster(TOKEN._replace(owner="Group:alice") if case == "no user" else TOKEN)
    cluster.now_ms += 101 if case == "expired" else 0
    cluster.tokens = {} if case == "gone" else cluster.tokens
    token_id = "other" if case == "no such token" else "id"
    secret = cluster.secrets.hmac_of(token_id)
    with pytest.raises(AuthenticationFailed, match="Invalid client credentials"):
        cluster.log_in(token_id, b"x" * 64 if case == "another secret" else secret)


def test_an_unknown_token_costs_the_same_work() -> None:
    credential = Cluster().secrets.begin_login(SHA_256, "id", b"salt")()
    assert credential.owner is None
    assert credential.credential.iterations == MIN_ITERATIONS


def test_no_text_has_a_secret() -> None:
    cluster = Cluster(TOKEN)
    text = f"{cluster.secrets!r}{cluster.secrets.begin_login(SHA_256, 'id', b'salt')()!r}"
    assert KEY not in text
    assert cluster.secrets.hmac_of("id").hex() not in text
