"""Describes and changes the quotas of users, client ids and addresses."""

from __future__ import annotations

from kraftlog.errors import RefusedError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import alter_client_quotas as alter
from kraftlog.wire.messages import describe_client_quotas as describe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.client import Client

    #: Pairs of entity type and name; the name None is the default of its type.
    Entity = tuple[tuple[str, str | None], ...]

#: How a component of a filter matches: a name, the default, or any.
_EXACT, _DEFAULT, _ANY = 0, 1, 2
#: In a filter: the default of an entity type, and all of its names.
DEFAULT, ANY = "", None


def describe_quotas(
    client: Client, wanted: Sequence[tuple[str, str | None]]
) -> dict[Entity, dict[str, float]]:
    """The quotas of the entities with exactly these types; a name may be DEFAULT or ANY."""
    components = [
        describe.ComponentData(
            entity_type=kind,
            match_type=_ANY if name is ANY else _EXACT if name != DEFAULT else _DEFAULT,
            match=name or None,
        )
        for kind, name in wanted
    ]
    request = describe.DescribeClientQuotasRequest(components=components, strict=True)
    response = client.request("DescribeClientQuotas", None, request)
    assert isinstance(response, describe.DescribeClientQuotasResponse)
    _check(response.error_code, response.error_message)
    order = [kind for kind, _ in wanted]
    return {
        tuple(
            sorted(
                [(part.entity_type, part.entity_name) for part in entry.entity],
                key=lambda part: order.index(part[0]),
            )
        ): {each.key: each.value for each in entry.values}
        for entry in response.entries or ()
    }


def alter_quotas(client: Client, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity; None removes one."""
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            alter.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )
    request = alter.AlterClientQuotasRequest(entries=[entry], validate_only=False)
    response = client.request("AlterClientQuotas", None, request)
    assert isinstance(response, alter.AlterClientQuotasResponse)
    for result in response.entries:
        _check(result.error_code, result.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        raise RefusedError(
            code, api="quotas", broker="the controller", subject="quota", message=message
        )
