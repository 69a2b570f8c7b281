"""AlterUserScramCredentials: the credentials by which users log in with SCRAM.

All levels of metadata.version that nodes support have their records.
"""

from __future__ import annotations

from itertools import chain

from kraftlog.controller.decision import Decision, Refusal
from kraftlog.errors import ErrorCode
from kraftlog.sasl.scram import MAX_STORED_ITERATIONS, MIN_ITERATIONS, NAMES, keys_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kraftlog.wire.messages.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

if TYPE_CHECKING:
    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from kraftlog.wire.schema import Message

#: The most bytes of a salt; Kafka has no limit.
MAX_SALT_BYTES = 1024
#: Cost of a change, in microseconds.
CHANGE_COST = 20

TWICE = Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


def decide_alter_scram(
    state: ControllerState,
    request: AlterUserScramCredentialsRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    """Each user succeeds or fails alone; nobody may be changed twice."""
    outcomes: dict[str, Refusal | Message] = {}
    for user, outcome in chain(
        ((each.name, _delete(state, each)) for each in request.deletions),
        ((each.name, _upsert(each)) for each in request.upsertions),
    ):
        before = outcomes.get(user)
        if before is None:
            outcomes[user] = outcome
        elif not isinstance(before, Refusal):
            outcomes[user] = TWICE
        yield CHANGE_COST
    records = [each for each in outcomes.values() if not isinstance(each, Refusal)]
    results = [
        AlterUserScramCredentialsResult(
            user=user,
            error_code=outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE,
            error_message=outcome.message if isinstance(outcome, Refusal) else None,
        )
        for user, outcome in outcomes.items()
    ]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _refusal(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Refusal | None:
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in NAMES:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _delete(state: ControllerState, deletion: ScramCredentialDeletion) -> Refusal | Message:
    refusal = _refusal(deletion)
    if refusal is None and (deletion.mechanism, deletion.name) not in state.scram:
        why = "Attempt to delete a user credential that does not exist"
        refusal = Refusal(ErrorCode.RESOURCE_NOT_FOUND, why)
    return refusal or RemoveUserScramCredentialRecord(
        name=deletion.name, mechanism=deletion.mechanism
    )


def _upsert(upsertion: ScramCredentialUpsertion) -> Refusal | Message:
    refusal = _refusal(upsertion) or _unacceptable(upsertion)
    if refusal is not None:
        return refusal
    keys = keys_of(
        NAMES[upsertion.mechanism],
        bytes(upsertion.salted_password),
        bytes(upsertion.salt),
        upsertion.iterations,
    )
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


def _unacceptable(upsertion: ScramCredentialUpsertion) -> Refusal | None:
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL
    if upsertion.iterations < MIN_ITERATIONS:
        return Refusal(code, "Too few iterations")
    if upsertion.iterations > MAX_STORED_ITERATIONS:
        return Refusal(code, "Too many iterations")
    # Nobody could log in without a salt.
    if not 0 < len(upsertion.salt) <= MAX_SALT_BYTES:
        return Refusal(code, f"A salt has 1 to {MAX_SALT_BYTES} bytes")
    return None
