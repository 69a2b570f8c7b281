"""Which quota applies to a client, in Kafka's order of precedence."""

from __future__ import annotations

from math import inf

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Sorted pairs of entity type and name; the name None is the default of its type.
    Entity = tuple[tuple[str, str | None], ...]
    #: The user and client id whose requests count together; None: of whatever user or client id.
    Scope = tuple[str | None, str | None]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONNECTION_CREATION_RATE = "connection_creation_rate"


def limit_for(
    quotas: Mapping[Entity, Mapping[str, float]], user: str, client_id: str, key: str
) -> tuple[float, Scope, Entity] | None:
    """The limit that applies, whose requests count, and whose quota it is; None: no quota applies.

    A log that others wrote may have quotas that are no number above 0: they limit nothing.
    """
    both, user_alone, client_alone = (user, client_id), (user, None), (None, client_id)
    candidates: tuple[tuple[Entity, Scope], ...] = (
        (((CLIENT_ID, client_id), (USER, user)), both),
        (((CLIENT_ID, None), (USER, user)), both),
        (((USER, user),), user_alone),
        (((CLIENT_ID, client_id), (USER, None)), both),
        (((CLIENT_ID, None), (USER, None)), both),
        (((USER, None),), user_alone),
        (((CLIENT_ID, client_id),), client_alone),
        (((CLIENT_ID, None),), client_alone),
    )
    for entity, scope in candidates:
        values = quotas.get(entity)
        if values is not None and key in values:
            limit = values[key]
            return (limit, scope, entity) if 0 < limit < inf else None
    return None
