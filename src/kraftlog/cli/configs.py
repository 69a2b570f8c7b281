"""`kraftlog configs`: the flags of `kafka-configs`."""

from __future__ import annotations

from kraftlog.cli.common import (
    UsageError,
    add_consistency,
    is_linearizable,
    new_parser,
    require_node,
    run_with_client,
)
from kraftlog.cli.config_changes import changes_of
from kraftlog.cli.show import print_json, print_table
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.configs import Setting

#: The entity types by their short flags.
_FLAGS = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "client-metrics": "client-metrics",
    "group": "groups",
}
_TYPES = tuple(_FLAGS.values())
#: The types whose entities are nodes, named by their ids.
OF_NODES = ("brokers", "broker-loggers")
#: Their configs are quotas, and SCRAM credentials of users.
_OF_CLIENTS = ("users", "clients", "ips")


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "configs",
        "Describe and alter the settings of topics, brokers, groups and client metrics, quotas and "
        "credentials.",
        "--alter --topic demo --add-config retention.ms=3600000,cleanup.policy=[compact,delete]",
        usage="kraftlog configs --describe | --alter [options]",
        controllers=True,
    )
    actions = parser.add_argument_group("what to do").add_mutually_exclusive_group(required=True)
    for name in _ACTIONS:
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=name)
    parser.add_argument(
        "--entity-type",
        action="append",
        choices=(*_TYPES, *_OF_CLIENTS),
        metavar="TYPE",
        help=f"{', '.join((*_TYPES, *_OF_CLIENTS))}; users and clients may stand together",
    )
    parser.add_argument("--entity-name", action="append", metavar="NAME")
    parser.add_argument(
        "--entity-default",
        dest="entity_name",
        action="append_const",
        const="",
        help="the default for all entities of the type",
    )
    for flag in ("user", "client", "ip"):
        parser.add_argument(f"--{flag}", metavar="NAME", help=f"an entity of type {flag}s")
        parser.add_argument(
            f"--{flag}-defaults", action="store_true", help=f"the default for all {flag}s"
        )
    for flag, kind in _FLAGS.items():
        parser.add_argument(f"--{flag}", metavar="NAME", help=f"an entity of type {kind}")
    parser.add_argument(
        "--broker-defaults", action="store_true", help="the default for all brokers"
    )
    parser.add_argument("--all", action="store_true", help="with --describe: include defaults")
    parser.add_argument("--add-config", metavar="K=V,K=[V,V]", help="configs to set")
    parser.add_argument(
        "--add-config-file", metavar="FILE", help="properties file of configs to set"
    )
    parser.add_argument("--delete-config", metavar="K,K", help="configs to delete")
    add_consistency(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    from kraftlog.cli import quotas

    options = _parser().parse_args(arguments)
    actions = quotas.ACTIONS if quotas.is_about_clients(options) else _ACTIONS
    return run_with_client("configs", options, actions[options.action])


def _entity(options: argparse.Namespace) -> tuple[str, str | None]:
    """The type and name of the entity; "" is the default for all brokers, None every entity."""
    entities = [
        (kind, getattr(options, flag.replace("-", "_")))
        for flag, kind in _FLAGS.items()
        if getattr(options, flag.replace("-", "_")) is not None
    ]
    if options.broker_defaults:
        entities.append(("brokers", ""))
    names = list(options.entity_name or ())
    for kind in options.entity_type or ():
        name = names.pop(0) if names else None
        if name == "" and kind != "brokers":
            raise UsageError("--entity-default: only brokers have defaults")
        entities.append((kind, name))
    for kind, name in entities:
        if kind in OF_NODES and name and not name.isdecimal():
            raise UsageError(f"broker {name}: expected its number")
    if len(entities) != 1:
        raise UsageError("specify an entity: --topic, --broker, --entity-type …")
    return entities[0]


def _require_broker(client: Client, kind: str, name: str | None) -> None:
    """Refuse an unknown or fenced broker, unless controllers are asked, who know its configs."""
    if name and kind in OF_NODES and not client.cluster.is_controllers:
        require_node(client, int(name))


def _describe(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.client.configs import RESOURCE_TYPES, is_set_dynamically

    kind, name = _entity(options)
    linearizable = is_linearizable(options)
    _require_broker(client, kind, name)
    names = _all_names(client, kind, linearizable=linearizable) if name is None else [name]
    settings_by_name: dict[str, list[Setting]] = {}
    for entity in names:
        settings = client.describe_configs(kind, entity, linearizable=linearizable)
        if not options.all:
            settings = [
                setting for setting in settings if is_set_dynamically(RESOURCE_TYPES[kind], setting)
            ]
        settings_by_name[entity] = sorted(settings, key=lambda setting: setting.name)
    if options.json:
        print_json(
            {
                entity: [_as_json(setting) for setting in settings]
                for entity, settings in settings_by_name.items()
            }
        )
        return
    print_table(
        ("ENTITY", "KEY", "VALUE", "SOURCE"),
        [
            (
                f"{kind[:-1]} {entity or '(default)'}",
                setting.name,
                _shown_value(setting),
                setting.source,
            )
            for entity, settings in settings_by_name.items()
            for setting in settings
        ],
    )


def _shown_value(setting: Setting) -> str | None:
    return "(hidden)" if setting.is_sensitive else setting.value


def _as_json(setting: Setting) -> dict[str, object]:
    return {
        "key": setting.name,
        "value": setting.value,
        "source": setting.source,
        "read_only": setting.is_read_only,
        "sensitive": setting.is_sensitive,
        "synonyms": [
            {"source": source, "key": key, "value": value}
            for source, key, value in setting.synonyms
        ],
    }


def _all_names(client: Client, kind: str, *, linearizable: bool) -> list[str]:
    if kind == "topics":
        return [topic.name for topic in client.topics(linearizable=linearizable)]
    if kind in {"brokers", "broker-loggers"}:
        described = client.describe_cluster(linearizable=linearizable)
        brokers = [str(broker.id) for broker in described.brokers]
        return brokers + [""] * (kind == "brokers")
    return client.config_resources(kind, linearizable=linearizable)


def _alter(client: Client, options: argparse.Namespace) -> None:
    kind, name = _entity(options)
    if name is None:
        raise UsageError("--alter needs --entity-name")
    changes = changes_of(options)
    _require_broker(client, kind, name)
    client.alter_configs(kind, name, changes)
    if options.json:
        print_json({"entity_type": kind, "entity_name": name, "changed": changes})
    else:
        print(f"altered {kind[:-1]} {name or '(default)'}")


_ACTIONS = {"describe": _describe, "alter": _alter}
