"""AlterClientQuotas: quotas of users, client ids and addresses."""

from __future__ import annotations

from kraftlog.authorization.hosts import address_number
from kraftlog.controller.decision import RECORDS_IN_BATCH, TOO_LARGE, Decision, Refusal
from kraftlog.errors import ErrorCode
from kraftlog.quotas.limits import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.alter_client_quotas import AlterClientQuotasResponse, EntryResult
from kraftlog.wire.messages.metadata_records import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        EntryData,
        OpData,
    )
    from kraftlog.wire.schema import Message

#: Keys of users and client ids, and those of addresses.
CLIENT_KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
IP_KEYS = (CONNECTION_CREATION_RATE,)
#: Keys whose values may be fractions.
FRACTIONS = (CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE)
#: Other values are whole numbers up to these, give or take an error of rounding.
MOST_BYTES, MOST_CONNECTIONS, ROUNDING = float(1 << 63), float((1 << 31) - 1), 1e-6
#: Cost of a change, in microseconds.
CHANGE_COST = 20


def decide_alter_client_quotas(
    state: ControllerState,
    request: AlterClientQuotasRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    """Each entity succeeds or fails alone, with all its changes."""
    records: list[Message] = []
    results = []
    decided: set[frozenset[tuple[str, str | None]]] = set()
    for entry in request.entries:
        entity = frozenset([(it.entity_type, it.entity_name) for it in entry.entity])
        outcome = _refusal_of_entity(entry) or _changes(state, entry)
        if entity in decided:
            outcome = _invalid("the entity stands in the request more than once")
        decided.add(entity)
        if not isinstance(outcome, Refusal) and len(records) + len(outcome) > RECORDS_IN_BATCH:
            outcome = TOO_LARGE
        refusal = outcome if isinstance(outcome, Refusal) else None
        if not isinstance(outcome, Refusal):
            records += outcome
        results.append(
            EntryResult(
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
                entity=entry.entity,
            )
        )
        yield CHANGE_COST * (1 + len(entry.ops))
    response = AlterClientQuotasResponse(entries=results)
    return Decision([] if request.validate_only else records, response)


def _invalid(why: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, why)


def _refusal_of_entity(entry: EntryData) -> Refusal | None:
    kinds: list[str] = []
    for part in entry.entity:
        if part.entity_type in kinds:
            why = f"Invalid client quota entity, duplicate entity entry {part.entity_type}"
            return _invalid(why)
        if part.entity_type not in {USER, CLIENT_ID, IP}:
            return _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if not part.entity_name and part.entity_name is not None:
            return _invalid(f"Empty {part.entity_type} not supported")
        kinds.append(part.entity_type)
    if not kinds:
        return _invalid("Invalid empty client quota entity")
    if IP in kinds and len(kinds) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    address = entry.entity[0].entity_name
    if IP in kinds and address is not None and address_number(address) is None:
        # Names are refused, too: each node might resolve them to other addresses.
        return _invalid(f"{address} is not a valid IP or resolvable host.")
    return None


def _changes(state: ControllerState, entry: EntryData) -> list[Message] | Refusal:
    """The records of changes that change something."""
    pairs = sorted(((it.entity_type, it.entity_name) for it in entry.entity), key=lambda it: it[0])
    stored = state.quotas.get(tuple(pairs), {})
    keys = IP_KEYS if pairs[0][0] == IP else CLIENT_KEYS
    entity = tuple([EntityData(entity_type=kind, entity_name=name) for kind, name in pairs])
    records: list[Message] = []
    if len({change.key for change in entry.ops}) < len(entry.ops):
        return _invalid("a key stands in the entry more than once")
    for change in entry.ops:
        if change.remove:
            changes_something = change.key in stored
        else:
            refusal = _refusal_of_value(change, keys)
            if refusal is not None:
                return refusal
            changes_something = stored.get(change.key) != change.value
        if changes_something:
            value = 0.0 if change.remove else change.value
            records.append(
                ClientQuotaRecord(entity=entity, key=change.key, value=value, remove=change.remove)
            )
    return records


def _refusal_of_value(change: OpData, keys: tuple[str, ...]) -> Refusal | None:
    key, value = change.key, change.value
    if key not in keys:
        return _invalid(f"Invalid configuration key {key}")
    if not value > 0:  # nor not a number
        return _invalid(f"Quota {key} must be greater than 0")
    if key in FRACTIONS:
        return None
    if key == CONNECTION_CREATION_RATE and value > MOST_CONNECTIONS:
        return _invalid(f"Proposed value for {key} is too large for an INT.")
    if value >= MOST_BYTES:
        return _invalid(f"Proposed value for {key} is too large for a LONG.")
    if value % 1.0 > ROUNDING:
        return _invalid(f"{key} cannot be a fractional value.")
    return None
