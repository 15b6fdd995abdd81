"""AlterUserScramCredentials: set and remove SCRAM passwords of users (KIP-554)."""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, blob, int8, int16, int32, nullable_string, string, v


class ScramCredentialDeletion(Struct):
    """A user's credential to remove."""

    name: string = v("0+")
    mechanism: int8 = v("0+")


class ScramCredentialUpsertion(Struct):
    """A credential to set. `mechanism`: as in DescribeUserScramCredentials. The client has salted the password.

    The repr hides the salt and the password.
    """

    name: string = v("0+")
    mechanism: int8 = v("0+")
    iterations: int32 = v("0+")
    salt: blob = v("0+")
    salted_password: blob = v("0+")

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism}, [hidden])"


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    """Change credentials. A request may name a user once."""

    deletions: array[ScramCredentialDeletion] = v("0+")
    upsertions: array[ScramCredentialUpsertion] = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "AlterUserScramCredentialsResponse":
        """Return the error for each user: the response has no other place for an error."""
        users = [deletion.name for deletion in self.deletions] + [upsertion.name for upsertion in self.upsertions]
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(user, error, message) for user in dict.fromkeys(users)]
        )


class AlterUserScramCredentialsResult(Struct):
    """The result for a user."""

    user: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class AlterUserScramCredentialsResponse(Message, key=51, response=True, versions="0", flexible="0+"):
    """One result for each user of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[AlterUserScramCredentialsResult] = v("0+")
