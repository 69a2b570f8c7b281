"""`kraftlog decommission` in a cluster of one node refuses what is impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.shell import Shell


def test_r14_impossible_removals_are_refused_before_any_change(shell: Shell) -> None:
    shell.run("topics --create --if-not-exists --topic stays")
    assert "is the only voter: add another one first" in shell.fails("decommission 1")
    plan = shell.json("decommission 9 --dry-run")
    assert plan == {"node": 9, "removeVoter": False, "move": [], "unregister": False}
