"""The look-up of credentials: decoys, and the mechanism of most users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from headgate.gateway.security.sasl.scram_credentials import ScramCredentials, UserCredentials
from headgate.gateway.security.sasl.tests.exchanges import made_credential
from headgate.protocol.security.sasl.scram_keys import ScramCredential, ScramMechanism

SHA_256, SHA_512 = ScramMechanism


def numbered(users: Sequence[Mapping[int, ScramCredential]]) -> UserCredentials:
    """Users by number."""
    return {str(number): user for number, user in enumerate(users)}


def test_the_usual_mechanism_is_that_of_most_users() -> None:
    weaker: Mapping[int, ScramCredential] = {SHA_256: made_credential(SHA_256, "x")}
    both: Mapping[int, ScramCredential] = {each: made_credential(each, "x") for each in (SHA_256, SHA_512)}
    many: tuple[tuple[Mapping[int, ScramCredential], ...], ...] = (
        (),
        (weaker,),
        (weaker, both),
        (weaker, weaker, both),
    )
    usual = [ScramCredentials(partial(numbered, users), b"").usual_mechanism() for users in many]
    assert usual == [SHA_512, SHA_256, SHA_512, SHA_256]


def test_a_decoy_has_keys_of_the_size_of_its_mechanism() -> None:
    for mechanism in ScramMechanism:
        decoy = ScramCredentials(dict, b"").decoy(mechanism, "\ud800")
        assert len(decoy.stored_key) == len(decoy.server_key) == mechanism.key_bytes
        assert decoy.stored_key != decoy.server_key
