"""Every flag of Kafka's tools is supported by our command, or listed here with a reason."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.version import VERSION
from tests.interop.test_format import TOOL as STORAGE
from tests.interop.tool_session import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.driver import Driver

#: Our command -> the class of Kafka's tool, and the sub-commands of that tool.
TOOLS = {
    "topics": (CLASSES["kafka-topics"], ()),
    "reassign": (CLASSES["kafka-reassign-partitions"], ()),
    "produce": (CLASSES["kafka-console-producer"], ()),
    "consume": (CLASSES["kafka-console-consumer"], ()),
    "groups": (CLASSES["kafka-consumer-groups"], ()),
    "configs": (CLASSES["kafka-configs"], ()),
    "acls": (CLASSES["kafka-acls"], ()),
    "delegation-tokens": (CLASSES["kafka-delegation-tokens"], ()),
    "offsets": (CLASSES["kafka-get-offsets"], ()),
    "delete-records": (CLASSES["kafka-delete-records"], ()),
    "leader-election": (CLASSES["kafka-leader-election"], ()),
    "log-dirs": (CLASSES["kafka-log-dirs"], ()),
    "api-versions": (CLASSES["kafka-broker-api-versions"], ()),
    "dump-log": ("org.apache.kafka.tools.DumpLogSegments", ()),
    "cluster": (
        CLASSES["kafka-cluster"],
        ("cluster-id", "list-endpoints", "api-versions", "unregister", "unregister-controller"),
    ),
    "features": (CLASSES["kafka-features"], ("describe", "upgrade", "downgrade", "disable")),
    "quorum": (
        CLASSES["kafka-metadata-quorum"],
        ("describe", "add-controller", "remove-controller"),
    ),
    "storage": (STORAGE, ("info", "format", "random-uuid", "version-mapping")),
}
#: Command, flag -> why it is not supported.
UNSUPPORTED = {
    ("topics", "--delete-config"): "Kafka 4 refuses it too",
    ("leader-election", "--admin.config"): "deprecated: --command-config",
    ("reassign", "--bootstrap-controller"): "a controller does not describe topics",
    ("consume", "--enable-systest-events"): "for the tests of Kafka itself",
    ("groups", "--validate-regex"): "for subscriptions of the new group protocol",
    ("dump-log", "--key-decoder-class"): "a Java class",
    ("dump-log", "--value-decoder-class"): "a Java class",
    ("dump-log", "--remote-log-metadata-decoder"): "there is no tiered storage",
    ("dump-log", "--share-group-state-decoder"): "there are no share groups",
}


def flags_of(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from flags_of(each)


def supported_flags(command: str) -> set[str]:
    module = import_module(f"kraftlog.cli.{command.replace('-', '_')}")
    return set(flags_of(module._parser()))


def kafkas_flags(jvm: Driver, tool: str, subcommands: tuple[str, ...]) -> set[str]:
    """The flags in the help of a Kafka tool, at the start of a line or in the usage."""
    pages = ""
    for subcommand in subcommands or ("",):
        result = jvm.tool(tool, *([subcommand] if subcommand else []), "--help")
        pages += result.stdout + result.stderr
    listed = re.findall(r"(?m)^ *(?:-\w, )?(--[a-z][\w.-]*\w)", pages)
    return {*listed, *re.findall(r"\[(--[a-z][\w-]*\w)", pages)}


def test_every_flag_of_kafkas_tools_is_supported_or_listed(jvm: Driver) -> None:
    missing = {
        (command, flag)
        for command, (tool, subcommands) in TOOLS.items()
        for flag in kafkas_flags(jvm, tool, subcommands) - supported_flags(command)
    }
    assert missing == UNSUPPORTED.keys()


def test_hidden_flags_are_found() -> None:
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--hidden", help=SUPPRESS)
    parser.add_subparsers().add_parser("sub").add_argument("-d", "--deep")
    assert set(flags_of(parser)) == {"--hidden", "-h", "--help", "-d", "--deep"}


@pytest.mark.parametrize("command", ["topics", "dump-log"])
def test_commands_print_their_version(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--version"])
    assert capsys.readouterr().out == f"kraftlog {VERSION}\n"
