"""R9, R10: controllers restarted on other ports find each other while no majority runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.server.files import OsFiles
from kraftlog.storage import boot_timestamp
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.test_moved_voters import describe_status
from tests.server.test_quorum import admin_of, create, expect_topics
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    started = Quorum(tmp_path, dynamic=True, all_vote=True)
    try:
        yield started
    finally:
        started.end()


def test_r9_the_only_voter_that_can_lead_finds_a_moved_follower(quorum: Quorum) -> None:
    """Of the two voters that are started again, only the one that has not moved can lead.

    The other one lacks a committed record. It moves to another port while no majority runs, so the
    log of the first has its old address.
    """
    staying, moving, lost = CONTROLLERS
    quorum.start(*CONTROLLERS, BROKER)
    admin = admin_of(quorum)
    create(admin, "before")
    quorum.kill(moving)
    create(admin, "without-it")
    before_move = boot_timestamp_of(quorum, moving)
    quorum.kill(staying)
    quorum.kill(lost)
    quorum.move(moving)
    quorum.start(moving, staying)
    create(admin, "after")
    expect_topics(admin, {"before", "without-it", "after"})
    assert describe_status(quorum)["LeaderId"] == staying
    assert boot_timestamp_of(quorum, moving) > before_move >= 0


def test_r9_moved_voters_find_each_other_through_a_bootstrap_server(quorum: Quorum) -> None:
    """No recorded address is valid any more.

    Each voter learns the new addresses from a bootstrap server, here one of the voters.
    """
    quorum.start(*CONTROLLERS, BROKER)
    admin = admin_of(quorum)
    create(admin, "before")
    for node_id in (BROKER, *CONTROLLERS):
        quorum.kill(node_id)
    bootstrap_server, *_ = [quorum.move(node_id) for node_id in CONTROLLERS]
    for node_id in (BROKER, *CONTROLLERS):
        file = quorum.folder / f"{node_id}.properties"
        text = re.sub(
            r"(?m)^(controller.quorum.bootstrap.servers=).*",
            rf"\g<1>{bootstrap_server}",
            file.read_text(),
        )
        file.write_text(text)
    quorum.start(*CONTROLLERS, BROKER)
    admin = admin_of(quorum)
    create(admin, "after")
    expect_topics(admin, {"before", "after"})


def test_r10_a_node_without_voters_logs_where_it_looks_for_them(tmp_path: Path) -> None:
    """The node does not become a candidate, and finds the voters once there are some."""
    quorum = Quorum(tmp_path, dynamic=True)
    first, second, _ = CONTROLLERS
    try:
        quorum.start(second)
        await_line(
            quorum, second, "knows no voters yet and does not elect itself; it asks 127.0.0.1:"
        )
        quorum.start(first)
        await_line(quorum, second, f"discovery: the voters are {first}")
    finally:
        quorum.end()


def boot_timestamp_of(quorum: Quorum, node_id: int) -> int:
    """The boot timestamp in a node's directory."""
    return boot_timestamp.load(OsFiles(), quorum.data(node_id))


def await_line(quorum: Quorum, node_id: int, text: str) -> None:
    """Wait until the node has logged the text."""
    log = quorum.folder / f"errors-{node_id}.txt"
    deadline = Deadline(LIMIT_S)
    while text not in log.read_text():
        assert not deadline.is_over, log.read_text()
