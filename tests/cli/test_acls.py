"""`kraftlog acls` and Kafka's kafka-acls do and print the same about a node with an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.authorization.acls import AclFilter
from kraftlog.cli import acls as command
from kraftlog.client import acls
from kraftlog.config.authorizer import CLASS_NAME, STANDARD_AUTHORIZER
from tests.cli.shell import Shell
from tests.interop.tool_session import CLASSES
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.client.acls import Entry, Pattern
    from tests.interop.driver import Driver

AUTHORIZER = (
    *("--override", f"{CLASS_NAME}={STANDARD_AUTHORIZER}"),
    *("--override", "super.users=User:ANONYMOUS"),
)
#: What is added, removed again and printed in between, by either tool.
CHANGES = [
    "--allow-principal User:a --operation Read --operation Describe --topic t",
    "--allow-principal User:a --allow-host 10.0.0.1 --deny-principal User:b --cluster",
    "--allow-principal User:a --resource-pattern-type prefixed --group g- --topic t-",
    "--allow-principal User:a --producer --topic t --transactional-id x --idempotent",
    "--allow-principal User:a --producer --consumer --topic t --group g",
    "--allow-principal User:a --operation CreateTokens --user-principal User:c",
    "--deny-principal User:* --delegation-token * --operation Describe",
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node with an authorizer, which lets everybody in."""
    folder = tmp_path_factory.mktemp("secured")
    node = NodeProcess(
        str(folder / "data"), *AUTHORIZER, errors=str(folder / "errors.txt"), topics={}
    )
    yield node.address
    node.kill_if_running()


@pytest.fixture
def acl_shell(
    secured: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    return Shell(secured, capsys, monkeypatch, tmp_path)


def described(address: str) -> dict[Pattern, list[Entry]]:
    with Client(address, timeout_s=LIMIT_S) as client:
        found = acls.describe(client.cluster, AclFilter())
    return {pattern: sorted(entries) for pattern, entries in found.items()}


def blocks(text: str) -> list[list[str]]:
    """The output of a tool, whose order varies: what it says of each resource."""
    parts = [block.splitlines() for block in text.split("\n\n")]
    return sorted([sorted([line.strip() for line in part]) for part in parts if any(part)])


def test_both_tools_do_and_print_the_same(jvm: Driver, acl_shell: Shell) -> None:
    address = acl_shell.address

    def theirs(line: str) -> str:
        words = [*line.split(), "--bootstrap-server", address]
        return jvm.tool(CLASSES["kafka-acls"], *words).ok().stdout

    before: dict[Pattern, list[Entry]] = {}
    for number, change in enumerate(CHANGES):
        first, second = (acl_shell.run, theirs) if number % 2 else (theirs, acl_shell.run)
        prefix = ("acls ", "") if number % 2 else ("", "acls ")
        added = first(f"{prefix[0]}--add {change}")
        after = described(address)
        assert after != before
        again = second(f"{prefix[1]}--add {change}")
        assert "Adding ACLs" in added
        assert "Adding ACLs" not in again
        assert described(address) == after
        before = after
    assert blocks(theirs("--list")) == blocks(acl_shell.run("acls --list"))
    match = "--list --topic t-1 --resource-pattern-type match --principal User:a"
    assert blocks(theirs(match)) == blocks(acl_shell.run(f"acls {match}"))
    for number, change in enumerate(CHANGES):
        if number % 2:
            theirs(f"--remove --force {change}")
        else:
            acl_shell.run(f"acls --remove --force {change}")
    assert described(address) == {}


def test_additions_are_printed_as_kafka_prints_them(acl_shell: Shell) -> None:
    shown = acl_shell.run(
        "acls --add --allow-principal User:x --operation Read --topic t --topic u"
    )
    resource = "`ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`"
    entry = "(principal=User:x, host=*, operation=READ, permissionType=ALLOW)"
    assert shown.splitlines()[:3] == [f"Adding ACLs for resource {resource}: ", f" \t{entry}", ""]
    acl_shell.run("acls --remove --force --topic t --topic u")


def test_a_removal_is_asked_about(acl_shell: Shell) -> None:
    who = "--allow-principal User:a --topic t"
    acl_shell.run(f"acls --add {who}")
    assert "Are you sure" in acl_shell.feed(b"n\n", f"acls --remove {who}")
    (line,) = acl_shell.json("acls --list --topic t --principal User:a")
    assert line == {
        "resource": "TOPIC",
        "name": "t",
        "pattern": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "ALL",
        "permission": "ALLOW",
    }
    assert acl_shell.run("acls --list --principal User:b") == "ACLs for principal `User:b`\n"
    acl_shell.feed(b"Y\n", "acls --remove --topic t")
    assert described(acl_shell.address) == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--add --topic t", "--add needs --allow-principal or --deny-principal"),
        ("--add --allow-principal User:a", "name at least one resource: --topic, --group"),
        ("--add --allow-principal a --topic t", "a: expected TYPE:NAME, as in User:alice"),
        ("--list --producer", "--producer cannot be combined with --list"),
        ("--add --producer --topic t --operation Read", "--operation cannot be combined"),
        ("--add --topic t --principal User:a", "--principal is for --list"),
        ("--add --producer --cluster", "--producer needs --topic"),
        ("--add --idempotent", "--idempotent is for --producer"),
        ("--add --consumer --topic t", "--consumer needs --topic and --group"),
        ("--add --topic t --allow-principal User:a --operation X", "--operation X: there is no"),
        (
            "--add --cluster --allow-principal User:a --operation Read",
            "--operation Read: operations on CLUSTER are All, Create, ClusterAction",
        ),
        (
            "--add --topic t --allow-principal User:a --resource-pattern-type any",
            "--resource-pattern-type any is not for --add",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code: object
    try:
        code = command.run([*line.split(), "--bootstrap-server", "127.0.0.1:1"])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err
