"""RenewDelegationToken: expire a token later (KIP-48).

v2 flexible
"""

from headgate.protocol.schema import Message, blob, int16, int32, int64, v


class RenewDelegationTokenRequest(Message, key=39, versions="0-2", flexible="2+"):
    """Renew the token with this secret, within its maximum lifetime. The repr hides the secret."""

    hmac: blob = v("0+")
    renew_period_ms: int64 = v("0+")

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(renew_period_ms={self.renew_period_ms}, [hidden])"


class RenewDelegationTokenResponse(Message, key=39, response=True, versions="0-2", flexible="2+"):
    """The time of the token's expiry, in ms."""

    error_code: int16 = v("0+")
    expiry_timestamp_ms: int64 = v("0+")
    throttle_time_ms: int32 = v("0+")
