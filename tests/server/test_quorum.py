"""A quorum of three controllers over TCP, with a broker that follows: killed, paused, restarted."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 60


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    made = Quorum(tmp_path)
    try:
        made.start(*CONTROLLERS, BROKER)
        yield made
    finally:
        made.end()


def admin_of(quorum: Quorum) -> AdminClient:
    return AdminClient({"bootstrap.servers": quorum.address})


def create(admin: AdminClient, name: str) -> None:
    """Raises unless the topic is acknowledged.

    When the answer to the first request is lost with the leader, the one that is passed on again
    finds the topic made.
    """
    [made] = admin.create_topics(
        [NewTopic(name, 1, 1)], operation_timeout=LIMIT_S, request_timeout=LIMIT_S
    ).values()
    try:
        made.result(LIMIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def topics_of(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=LIMIT_S).topics)


def test_no_acknowledged_change_is_lost_when_leaders_are_killed(quorum: Quorum) -> None:
    """Q3, Q21: kill -9 of every controller in turn, the leader among them, under load."""
    admin = admin_of(quorum)
    acknowledged = set()
    for turn, victim in enumerate((*CONTROLLERS, CONTROLLERS[0])):
        for number in range(5):
            name = f"t-{turn}-{number}"
            create(admin, name)
            acknowledged.add(name)
        quorum.kill(victim)
        create(admin, f"after-{turn}")
        acknowledged.add(f"after-{turn}")
        quorum.start(victim)
    assert topics_of(admin) == acknowledged


def test_a_controller_that_is_paused_holds_up_nothing(quorum: Quorum) -> None:
    admin = admin_of(quorum)
    create(admin, "before")
    for paused in CONTROLLERS:
        process = quorum.nodes[paused].process
        process.send_signal(signal.SIGSTOP)
        try:
            create(admin, f"without-{paused}")
        finally:
            process.send_signal(signal.SIGCONT)
    assert topics_of(admin) == {"before", *[f"without-{i}" for i in CONTROLLERS]}


def test_everything_is_there_after_all_were_stopped(quorum: Quorum) -> None:
    admin = admin_of(quorum)
    create(admin, "kept")
    for node_id in (BROKER, *CONTROLLERS):
        assert quorum.nodes.pop(node_id).stop() == 0
    quorum.start(*CONTROLLERS, BROKER)
    assert topics_of(admin_of(quorum)) == {"kept"}
