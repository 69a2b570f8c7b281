"""Controllers that join the voters automatically (controller.quorum.auto.join.enable)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from tests.patience import LIMIT_S
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum, format_node
from tests.server.test_moved_voters import described
from tests.server.test_quorum import admin_of, create, expect_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_r12_controllers_join_automatically(tmp_path: Path) -> None:
    """With auto-join: a quorum of one becomes one of three, and a wiped voter is replaced."""
    quorum = Quorum(tmp_path, dynamic=True)
    for node_id in CONTROLLERS:
        with open(quorum.file(node_id), "a", encoding="utf-8") as file:
            file.write("controller.quorum.auto.join.enable=true\n")
    try:
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        await_voters(quorum, CONTROLLERS)
        create(admin, "before")
        lost = CONTROLLERS[2]
        quorum.kill(lost)
        shutil.rmtree(quorum.data(lost))
        format_node(quorum.file(lost), "--no-initial-controllers")
        before = directories(quorum)
        quorum.start(lost)
        await_voters(quorum, CONTROLLERS, lambda: directories(quorum).get(lost) != before[lost])
        quorum.kill(CONTROLLERS[0])
        create(admin, "after")
        expect_topics(admin, {"before", "after"})
    finally:
        quorum.end()


def directories(quorum: Quorum) -> dict[int, str]:
    """The directory ids of the voters, by node id."""
    return {it["id"]: it["directoryId"] for it in described(quorum)["CurrentVoters"]}


def await_voters(
    quorum: Quorum, ids: tuple[int, ...], also: Callable[[], bool] = lambda: True
) -> None:
    deadline = Deadline(LIMIT_S)
    while tuple(sorted(directories(quorum))) != ids or not also():
        assert not deadline.is_over, described(quorum)
