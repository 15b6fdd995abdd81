"""DescribeUserScramCredentials: the SCRAM mechanisms of users (KIP-554)."""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)

SCRAM_SHA_256 = 1
SCRAM_SHA_512 = 2


class UserName(Struct):
    """A user."""

    name: string = v("0+")


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    """Ask for users; null or an empty list: all of them."""

    users: nullable_array[UserName] = v("0+")


class CredentialInfo(Struct):
    """A mechanism (a constant of this module) and its iterations; never a salt or a key."""

    mechanism: int8 = v("0+")
    iterations: int32 = v("0+")


class DescribeUserScramCredentialsResult(Struct):
    """A user, or its error."""

    user: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    credential_infos: array[CredentialInfo] = v("0+")


class DescribeUserScramCredentialsResponse(Message, key=50, response=True, versions="0", flexible="0+"):
    """One result for each user."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    results: array[DescribeUserScramCredentialsResult] = v("0+")
