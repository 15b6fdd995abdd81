"""ExpireDelegationToken: expire a token earlier, or now (KIP-48).

v2 flexible
"""

from headgate.protocol.schema import Message, blob, int16, int32, int64, v


class ExpireDelegationTokenRequest(Message, key=40, versions="0-2", flexible="2+"):
    """Expire the token with this secret after a time; a negative time is now. The repr hides the secret."""

    hmac: blob = v("0+")
    expiry_time_period_ms: int64 = v("0+")

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(expiry_time_period_ms={self.expiry_time_period_ms}, [hidden])"


class ExpireDelegationTokenResponse(Message, key=40, response=True, versions="0-2", flexible="2+"):
    """The time of the token's expiry, in ms."""

    error_code: int16 = v("0+")
    expiry_timestamp_ms: int64 = v("0+")
    throttle_time_ms: int32 = v("0+")
