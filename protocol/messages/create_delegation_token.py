"""CreateDelegationToken: create a token, whose bearers act as its owner for a limited time (KIP-48).

v2 flexible   v3 tokens for other users (KIP-373)
"""

from headgate.protocol.schema import Message, Struct, array, blob, int16, int32, int64, nullable_string, string, v


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: string = v("0+")
    principal_name: string = v("0+")


class CreateDelegationTokenRequest(Message, key=38, versions="0-3", flexible="2+"):
    """Create a token. A null owner is the requesting principal; a lifetime of -1 is the broker's default."""

    owner_principal_type: nullable_string = v("3+")
    owner_principal_name: nullable_string = v("3+")
    renewers: array[CreatableRenewers] = v("0+")
    max_lifetime_ms: int64 = v("0+")


class CreateDelegationTokenResponse(Message, key=38, response=True, versions="0-3", flexible="2+"):
    """The token: `hmac` is its secret, which the repr hides. Times are in ms, -1 with an error."""

    error_code: int16 = v("0+")
    principal_type: string = v("0+")
    principal_name: string = v("0+")
    token_requester_principal_type: string = v("3+")
    token_requester_principal_name: string = v("3+")
    issue_timestamp_ms: int64 = v("0+", failed=-1)
    expiry_timestamp_ms: int64 = v("0+", failed=-1)
    max_timestamp_ms: int64 = v("0+", failed=-1)
    token_id: string = v("0+")
    hmac: blob = v("0+")
    throttle_time_ms: int32 = v("0+")

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse(error_code={self.error_code}, token_id={self.token_id!r}, [hidden])"
