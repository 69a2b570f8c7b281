"""`kraftlog configs` sets and shows quotas with the flags of kafka-configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell

    Named = Callable[[str], str]

RATE = "producer_byte_rate"


def test_quotas_of_a_user_and_a_client_id_together_and_alone(shell: Shell, named: Named) -> None:
    user, app = named("u"), named("c")
    both = f"--entity-type clients --entity-name {app} --entity-type users --entity-name {user}"
    assert shell.run(f"configs --alter {both} --add-config {RATE}=1024,request_percentage=0.5") == (
        f"altered user {user}, client {app}\n"
    )
    shell.run(f"configs --alter --user {user} --add-config {RATE}=2048")
    entity = f"user {user}, client {app}"
    expected = (
        f"{'ENTITY':<{len(entity)}}  KEY                 VALUE\n"
        f"{entity}  producer_byte_rate  1024\n"
        f"{entity}  request_percentage  0.5\n"
    )
    until(lambda: shell.run(f"configs --describe {both}"), expected)
    shorter = f"configs --describe --user {user} --client {app}"
    until(lambda: shell.json(shorter), {entity: {RATE: 1024.0, "request_percentage": 0.5}})
    until(lambda: shell.json(f"configs --describe --user {user}"), {user: {RATE: 2048.0}})
    every_client = "configs --describe --entity-type users --entity-name {} --entity-type clients"
    assert set(shell.json(every_client.format(user))) == {entity}
    assert shell.json(f"configs --alter {both} --delete-config {RATE},request_percentage") == {
        "entity_type": "users,clients",
        "entity_name": f"{user},{app}",
        "changed": {RATE: None, "request_percentage": None},
    }
    until(lambda: shell.json(f"configs --describe {both}"), {})
    until(lambda: shell.json(f"configs --describe --user {user}"), {user: {RATE: 2048.0}})
    shell.run(f"configs --alter --user {user} --delete-config {RATE}")


@pytest.mark.parametrize(
    ("flags", "label", "key"),
    [
        ("--client-defaults", "client (default)", "controller_mutation_rate"),
        ("--entity-type users --entity-default", "user (default)", "controller_mutation_rate"),
        ("--ip-defaults", "ip (default)", "connection_creation_rate"),
        ("--ip 192.0.2.7", "ip 192.0.2.7", "connection_creation_rate"),
    ],
    ids=["clients", "users", "ips", "one ip"],
)
def test_quotas_of_defaults_and_addresses(shell: Shell, flags: str, label: str, key: str) -> None:
    assert shell.run(f"configs --alter {flags} --add-config {key}=1000000") == f"altered {label}\n"
    name = "192.0.2.7" if "192" in label else ""
    kind = f"{label.split(maxsplit=1)[0]}s"
    try:
        until(lambda: shell.json(f"configs --describe {flags}"), {name: {key: 1e6}})
        assert name in shell.json(f"configs --describe --entity-type {kind}")
    finally:
        shell.run(f"configs --alter {flags} --delete-config {key}")
    until(lambda: shell.json(f"configs --describe {flags}"), {})
    assert name not in shell.json(f"configs --describe --entity-type {kind}")


def test_credentials_of_a_user_are_shown_with_its_quotas(shell: Shell, named: Named) -> None:
    user = named("u")
    shell.run(f"configs --alter --user {user} --add-config SCRAM-SHA-256=[password=x]")
    shell.run(f"configs --alter --user {user} --add-config {RATE}=1")
    until(
        lambda: shell.json(f"configs --describe --user {user}"),
        {user: {"SCRAM-SHA-256": 4096, RATE: 1.0}},
    )
    rows = [
        line.removeprefix(f"user {user}").split()
        for line in shell.run("configs --describe --entity-type users").splitlines()
        if line.startswith(f"user {user} ")
    ]
    assert rows == [["SCRAM-SHA-256", "iterations=4096"], [RATE, "1"]]
    shell.run(f"configs --alter --user {user} --delete-config SCRAM-SHA-256")
    shell.run(f"configs --alter --user {user} --delete-config {RATE}")
    until(lambda: shell.json(f"configs --describe --user {user}"), {})


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (f"--user a --add-config {RATE}=x", "expected a number"),
        (f"--entity-type users --add-config {RATE}=1", "--entity-name or --entity-default"),
        (
            f"--entity-type users --entity-name a --entity-type clients --add-config {RATE}=1",
            "--entity-name or --entity-default",
        ),
        (f"--user a --ip 192.0.2.1 --add-config {RATE}=1", "users, clients or ips alone"),
        (f"--user a --topic b --add-config {RATE}=1", "users, clients or ips alone"),
        (f"--user a --add-config SCRAM-SHA-256=[password=x],{RATE}=1", "either credentials"),
        ("--user-defaults --add-config SCRAM-SHA-256=[password=x]", "no credentials"),
        ("--user a", "needs --add-config"),
    ],
    ids=["number", "no name", "one name", "user and ip", "user and topic", "both", "default", "no"],
)
def test_wrong_flags_are_usage_errors(shell: Shell, flags: str, why: str) -> None:
    assert why in shell.fails(f"configs --alter {flags}", code=2)


def test_what_the_controller_refuses_is_an_error(shell: Shell) -> None:
    assert "must be greater than 0" in shell.fails(
        "configs --alter --ip-defaults --add-config connection_creation_rate=0"
    )
    assert "cannot be a fractional value" in shell.fails(
        "configs --alter --ip 192.0.2.8 --add-config connection_creation_rate=1.5"
    )
