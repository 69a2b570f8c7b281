"""`kraftlog configs --alter --entity-type users`: the SCRAM credentials of users."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, usage_errors
from kraftlog.cli.config_changes import parse_settings
from kraftlog.cli.show import print_json
from kraftlog.sasl.scram import NAMES, NUMBERS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from kraftlog.client.client import Client


def alter(client: Client, options: argparse.Namespace, name: str | None) -> None:
    from kraftlog.cli.scram_credentials import salted_from
    from kraftlog.client.scram import alter_scram

    if not name:
        raise UsageError("--alter needs --entity-name: a default user has no credentials")
    given = parse_settings(options.add_config or "")
    deleted = [key.strip() for key in (options.delete_config or "").split(",") if key.strip()]
    if options.add_config_file:
        raise UsageError("--alter needs --add-config SCRAM-SHA-512=[password=…] or --delete-config")
    _check_mechanisms([*given, *deleted])
    with usage_errors():
        upserted = [salted_from(mechanism, text) for mechanism, text in given.items()]
    # A request may change a user only once, as in Kafka.
    for each in upserted:
        alter_scram(client, name, upserted=each)
    for mechanism in deleted:
        alter_scram(client, name, deleted=mechanism)
    if options.json:
        print_json({"entity_type": "users", "entity_name": name, "changed": [*given, *deleted]})
    else:
        print(f"altered user {name}")


def _check_mechanisms(names: Iterable[str]) -> None:
    for name in names:
        if name not in NUMBERS:
            raise UsageError(f"{name}: expected one of {', '.join(NAMES.values())}, or a quota")
