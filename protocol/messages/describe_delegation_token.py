"""DescribeDelegationToken: the tokens that the requesting principal may see (KIP-48).

v2 flexible   v3 the requester of a token (KIP-373)
"""

from headgate.protocol.schema import Message, Struct, array, blob, int16, int32, int64, nullable_array, string, v


class DescribeDelegationTokenOwner(Struct):
    """An owner of tokens."""

    principal_type: string = v("0+")
    principal_name: string = v("0+")


class DescribeDelegationTokenRequest(Message, key=41, versions="0-3", flexible="2+"):
    """Ask for the tokens of these owners; null: of all."""

    owners: nullable_array[DescribeDelegationTokenOwner] = v("0+")


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: string = v("0+")
    principal_name: string = v("0+")


class DescribedDelegationToken(Struct):
    """A token with its secret, which the repr hides; times are in ms."""

    principal_type: string = v("0+")
    principal_name: string = v("0+")
    token_requester_principal_type: string = v("3+")
    token_requester_principal_name: string = v("3+")
    issue_timestamp: int64 = v("0+")
    expiry_timestamp: int64 = v("0+")
    max_timestamp: int64 = v("0+")
    token_id: string = v("0+")
    hmac: blob = v("0+")
    renewers: array[DescribedDelegationTokenRenewer] = v("0+")

    def __repr__(self) -> str:
        return f"DescribedDelegationToken(token_id={self.token_id!r}, [hidden])"


class DescribeDelegationTokenResponse(Message, key=41, response=True, versions="0-3", flexible="2+"):
    """The tokens."""

    error_code: int16 = v("0+")
    tokens: array[DescribedDelegationToken] = v("0+")
    throttle_time_ms: int32 = v("0+")
