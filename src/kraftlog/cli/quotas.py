"""`kraftlog configs` for users, clients and ips: quotas; users alone have credentials, too."""

from __future__ import annotations

from kraftlog.cli.common import UsageError
from kraftlog.cli.config_changes import changes_of
from kraftlog.cli.show import print_json, print_table
from kraftlog.client.quotas import DEFAULT, alter_quotas, describe_quotas
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kraftlog.client.client import Client
    from kraftlog.client.quotas import Entity

#: The types of the requests, by those of the flags, in the order in which entities are shown.
KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
#: How the parts of an entity are called in tables.
_WORDS = {"user": "user", "client-id": "client", "ip": "ip"}
#: What may be combined.
_COMBINATIONS = (["users"], ["clients"], ["users", "clients"], ["ips"])
#: The options of other entities.
_OTHERS = ("topic", "broker", "broker_logger", "client_metrics", "group", "broker_defaults")
#: A property whose name begins with this is a credential of a user.
CREDENTIAL = "SCRAM-"


def named_entities(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """The types and names of the flags; a name is None if none is given, and DEFAULT."""
    entities: list[tuple[str, str | None]] = []
    for flag in ("user", "client", "ip"):
        if getattr(options, f"{flag}_defaults"):
            entities.append((f"{flag}s", DEFAULT))
        elif getattr(options, flag) is not None:
            entities.append((f"{flag}s", getattr(options, flag)))
    names = list(options.entity_name or ())
    kinds = options.entity_type or ()
    entities += [(kind, names.pop(0) if names else None) for kind in kinds]
    return entities


def _wanted(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    entities = named_entities(options)
    order = list(KINDS)
    entities.sort(key=lambda entity: order.index(entity[0]) if entity[0] in order else -1)
    is_mixed = any(getattr(options, name) for name in _OTHERS)
    if is_mixed or [kind for kind, _ in entities] not in _COMBINATIONS:
        raise UsageError("specify users, clients or ips alone, or users with clients")
    return [(KINDS[kind], name) for kind, name in entities]


def has_credentials(options: argparse.Namespace) -> bool:
    """Whether the flags are about users alone, who may have credentials."""
    return [kind for kind, _ in named_entities(options)] == ["users"]


def _label(entity: Entity) -> str:
    return ", ".join(
        f"{_WORDS[kind]} {'(default)' if name is None else name}" for kind, name in entity
    )


def _number(value: float) -> str:
    return f"{value:.15g}"


def _describe(client: Client, options: argparse.Namespace) -> None:
    wanted = _wanted(options)
    found: dict[Entity, dict[str, object]] = {
        entity: dict(values) for entity, values in describe_quotas(client, wanted).items()
    }
    if has_credentials(options) and wanted[0][1] != DEFAULT:
        from kraftlog.client.scram import describe_scram

        name = wanted[0][1]
        for user, credentials in describe_scram(client, None if name is None else [name]).items():
            found.setdefault((("user", user),), {}).update(credentials)
    if options.json:
        print_json(
            {
                (entity[0][1] or "") if len(entity) == 1 else _label(entity): values
                for entity, values in found.items()
            }
        )
        return
    print_table(
        ("ENTITY", "KEY", "VALUE"),
        [
            (
                _label(entity),
                key,
                _number(value) if isinstance(value, float) else f"iterations={value}",
            )
            for entity, values in sorted(found.items(), key=lambda item: _label(item[0]))
            for key, value in sorted(values.items())
        ],
    )


def _alter(client: Client, options: argparse.Namespace) -> None:
    wanted = _wanted(options)
    changes = changes_of(options)
    credentials = [key for key in changes if key.upper().startswith(CREDENTIAL)]
    if credentials and has_credentials(options):
        if len(credentials) < len(changes):
            raise UsageError("specify either credentials of a user or quotas")
        from kraftlog.cli import users

        users.alter(client, options, wanted[0][1])
        return
    if any(name is None for _, name in wanted):
        raise UsageError("--alter needs --entity-name or --entity-default for each --entity-type")
    entity: Entity = tuple((kind, None if name == DEFAULT else name) for kind, name in wanted)
    alter_quotas(client, entity, {key: _value(key, text) for key, text in changes.items()})
    if options.json:
        kinds = ",".join(kind for kind in KINDS if KINDS[kind] in dict(wanted))
        names = ",".join(name or "" for _, name in wanted)
        print_json({"entity_type": kinds, "entity_name": names, "changed": changes})
    else:
        print(f"altered {_label(entity)}")


def _value(key: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key}={text}: expected a number") from None


def is_about_clients(options: argparse.Namespace) -> bool:
    """Whether the flags are about quotas and credentials."""
    return any(kind in KINDS for kind, _ in named_entities(options))


ACTIONS = {"describe": _describe, "alter": _alter}
