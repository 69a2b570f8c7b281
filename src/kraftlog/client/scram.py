"""Describes and changes the SCRAM credentials of users."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.sasl.scram import NAMES, NUMBERS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import alter_user_scram_credentials as alter
from kraftlog.wire.messages import describe_user_scram_credentials as describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.sasl.scram import SaltedPassword


def describe_scram(client: Client, users: Sequence[str] | None) -> dict[str, dict[str, int]]:
    """The iterations of each mechanism, by user: of these users or of all that have any."""
    named = None if users is None else [describe.UserName(name=user) for user in users]
    request = describe.DescribeUserScramCredentialsRequest(users=named)
    response = client.request("DescribeUserScramCredentials", None, request)
    assert isinstance(response, describe.DescribeUserScramCredentialsResponse)
    _check(response.error_code, response.error_message)
    found = {}
    for result in response.results:
        if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            _check(result.error_code, result.error_message, result.user)
            found[result.user] = {
                NAMES.get(info.mechanism, str(info.mechanism)): info.iterations
                for info in result.credential_infos
            }
    return found


def alter_scram(
    client: Client, user: str, *, upserted: SaltedPassword | None = None, deleted: str = ""
) -> None:
    """Set or delete the credential of one mechanism."""
    upsertions, deletions = [], []
    if upserted is not None:
        upsertions.append(
            alter.ScramCredentialUpsertion(
                name=user,
                mechanism=NUMBERS[upserted.mechanism],
                iterations=upserted.iterations,
                salt=upserted.salt,
                salted_password=upserted.salted,
            )
        )
    if deleted:
        deletions.append(alter.ScramCredentialDeletion(name=user, mechanism=NUMBERS[deleted]))
    request = alter.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    response = client.request("AlterUserScramCredentials", None, request)
    assert isinstance(response, alter.AlterUserScramCredentialsResponse)
    for result in response.results:
        _check(result.error_code, result.error_message, result.user)


def _check(code: int, message: str | None, user: str = "") -> None:
    if code:
        raise RefusedError(
            code, api="SCRAM", broker="the controller", subject=f"user {user}", message=message
        )
