"""What `--add-config`, `--add-config-file` and `--delete-config` change."""

from __future__ import annotations

from kraftlog.cli.common import UsageError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def changes_of(options: argparse.Namespace) -> dict[str, str | None]:
    """The configs to set, and those to delete, which are None."""
    from kraftlog.config.properties import parse

    changes: dict[str, str | None] = {}
    if options.delete_config:
        changes.update(dict.fromkeys(key.strip() for key in options.delete_config.split(",")))
    if options.add_config_file:
        with open(options.add_config_file, encoding="utf-8") as file:
            changes.update(parse(file.read()))
    if options.add_config:
        changes.update(parse_settings(options.add_config))
    if not changes:
        raise UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return changes


def parse_settings(text: str) -> dict[str, str]:
    """Parse `k=v,k=[v,v]`: brackets enclose values with commas."""
    import re

    settings = {}
    unparsed = text.strip()
    while unparsed:
        match = re.match(r"\s*([^=,\s]+)\s*=\s*(?:\[([^\]]*)\]|([^,]*))\s*(?:,|$)", unparsed)
        if match is None:
            raise UsageError(f"--add-config {unparsed}: expected KEY=VALUE or KEY=[VALUE,VALUE]")
        settings[match[1]] = match[3].strip() if match[2] is None else match[2]
        unparsed = unparsed[match.end() :]
    return settings
