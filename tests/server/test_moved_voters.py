"""Controllers that restart on other ports; the others find them through the log."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.test_quorum import admin_of, create, expect_topics
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Properties for `kraftlog quorum`: its requests may take as long as a test.
COMMAND_CONFIG = f"default.api.timeout.ms={LIMIT_S * 1000}\n"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    quorum = Quorum(tmp_path, dynamic=True, all_vote=True)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        yield quorum
    finally:
        quorum.end()


def test_r9_a_controller_that_moves_to_another_port_is_found(quorum: Quorum) -> None:
    """The moved controller was the leader; as a follower it sends its address to the next leader.

    Once the next leader is killed, the moved controller and the third, which learned the new
    address only from the log, must elect a leader.
    """
    admin = admin_of(quorum)
    create(admin, "before")
    moved = describe_status(quorum)["LeaderId"]
    quorum.kill(moved)
    address = quorum.move(moved)
    quorum.start(moved)
    status = await_endpoints(quorum, {moved: address})
    quorum.kill(status["LeaderId"])
    create(admin, "after")
    expect_topics(admin, {"before", "after"})


def test_r9_a_majority_that_moves_to_other_ports_is_found(quorum: Quorum) -> None:
    """A leader sends its own address before the log has the new addresses."""
    admin = admin_of(quorum)
    create(admin, "before")
    moved = CONTROLLERS[:2]
    for node_id in moved:
        quorum.kill(node_id)
    addresses = {node_id: quorum.move(node_id) for node_id in moved}
    quorum.start(*moved)
    await_endpoints(quorum, addresses)
    create(admin, "after")
    expect_topics(admin, {"before", "after"})


def test_c11_configured_voter_addresses_take_precedence(tmp_path: Path) -> None:
    """All controllers move; their log has only the old addresses, their files the new ones."""
    quorum = Quorum(tmp_path)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        create(admin_of(quorum), "before")
        quorum.nodes.pop(BROKER).stop()
        for node_id in CONTROLLERS:
            quorum.kill(node_id)
        quorum.move_all()
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        create(admin, "after")
        expect_topics(admin, {"before", "after"})
    finally:
        quorum.end()


def describe_status(quorum: Quorum) -> dict[str, Any]:
    """The output of `kraftlog quorum describe --status --json`."""
    command = [sys.executable, "-m", "kraftlog", "quorum"]
    config = quorum.folder / "command.properties"
    config.write_text(COMMAND_CONFIG)
    options = ["--bootstrap-server", quorum.address, "--command-config", str(config)]
    words = [*options, "describe", "--status", "--json"]
    done = subprocess.run([*command, *words], check=True, stdout=subprocess.PIPE)
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def await_endpoints(quorum: Quorum, addresses: dict[int, str]) -> dict[str, Any]:
    """Wait until these voters have these addresses; return the status of the quorum."""
    deadline = time.monotonic() + LIMIT_S  # noqa: TID251 - a generous limit, not a measure
    while True:
        status = describe_status(quorum)
        endpoints = {voter["id"]: voter["endpoints"] for voter in status["CurrentVoters"]}
        if all(endpoints[i] == [f"CONTROLLER://{address}"] for i, address in addresses.items()):
            return status
        assert time.monotonic() < deadline, status  # noqa: TID251 - as above
