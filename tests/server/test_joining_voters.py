"""Controllers that join the voters automatically (controller.quorum.auto.join.enable)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.server.quorum_of_processes import (
    BROKER,
    CONTROLLER_FILE,
    CONTROLLERS,
    Quorum,
    format_node,
)
from tests.server.test_moved_voters import describe_status
from tests.server.test_quorum import admin_of, create, expect_topics
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


AUTO_JOIN = "controller.quorum.auto.join.enable=true\n"


def test_r12_controllers_join_automatically(tmp_path: Path) -> None:
    """A quorum of one becomes a quorum of three, and a voter whose disk is lost is replaced."""
    quorum = Quorum(tmp_path, dynamic=True)
    for node_id in CONTROLLERS:
        with open(quorum.file(node_id), "a", encoding="utf-8") as file:
            file.write(AUTO_JOIN)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        await_voters(quorum, CONTROLLERS)
        create(admin, "before")
        lost = CONTROLLERS[2]
        quorum.kill(lost)
        shutil.rmtree(quorum.data(lost))
        format_node(quorum.file(lost), "--no-initial-controllers")
        before = directory_ids(quorum)
        quorum.start(lost)
        await_voters(quorum, CONTROLLERS, lambda: directory_ids(quorum).get(lost) != before[lost])
        quorum.kill(CONTROLLERS[0])
        create(admin, "after")
        expect_topics(admin, {"before", "after"})
    finally:
        quorum.end()


def test_r12_one_node_grows_to_three_and_five_by_starting_nodes(tmp_path: Path) -> None:
    """Each new node knows only the first one's address. Then two of the five are lost."""
    quorum = Quorum(tmp_path, dynamic=True)
    first, *others = CONTROLLERS
    added = (11, 12)
    try:
        quorum.start(first, BROKER)
        admin = admin_of(quorum)
        create(admin, "of-one")
        for node_id in others:
            with open(quorum.file(node_id), "a", encoding="utf-8") as file:
                file.write(AUTO_JOIN)
        quorum.start(*others)
        await_voters(quorum, CONTROLLERS)
        create(admin, "of-three")
        quorum.add(*added, template=CONTROLLER_FILE + AUTO_JOIN)
        await_voters(quorum, (*CONTROLLERS, *added))
        create(admin, "of-five")
        quorum.kill(first)
        quorum.kill(added[0])
        create(admin, "of-the-last-three")
        expect_topics(admin, {"of-one", "of-three", "of-five", "of-the-last-three"})
    finally:
        quorum.end()


def test_r12_a_removed_controller_does_not_rejoin_with_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart does not add the controller. With a new, empty directory it joins by itself."""
    quorum = Quorum(tmp_path, dynamic=True)
    removed = CONTROLLERS[2]
    for node_id in CONTROLLERS:
        with open(quorum.file(node_id), "a", encoding="utf-8") as file:
            file.write(AUTO_JOIN)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        await_voters(quorum, CONTROLLERS)
        for _ in range(2):
            shell.run(f"quorum remove-controller -i {removed}")
            await_line(quorum, removed, "kraftlog quorum add-controller")
            quorum.kill(removed)
            quorum.start(removed)
            await_line(quorum, removed, "kraftlog quorum add-controller")
            assert tuple(directory_ids(quorum)) == CONTROLLERS[:2]
            shell.run("quorum add-controller", "--command-config", quorum.file(removed))
            await_voters(quorum, CONTROLLERS)
        shell.run(f"quorum remove-controller -i {removed}")
        quorum.kill(removed)
        shutil.rmtree(quorum.data(removed))
        format_node(quorum.file(removed), "--no-initial-controllers")
        quorum.start(removed)
        await_voters(quorum, CONTROLLERS)
    finally:
        quorum.end()


def await_line(quorum: Quorum, node_id: int, text: str) -> None:
    """Wait until the node has logged the text."""
    until(lambda: text in (quorum.folder / f"errors-{node_id}.txt").read_text(), expected=True)


def directory_ids(quorum: Quorum) -> dict[int, str]:
    """The directory ids of the voters, by node id."""
    return {it["id"]: it["directoryId"] for it in describe_status(quorum)["CurrentVoters"]}


def await_voters(
    quorum: Quorum, ids: tuple[int, ...], is_done: Callable[[], bool] = lambda: True
) -> None:
    deadline = Deadline(LIMIT_S)
    while tuple(sorted(directory_ids(quorum))) != ids or not is_done():
        assert not deadline.is_over, describe_status(quorum)
