"""Two controllers of kraftlog and one of Kafka: each reads the voter records of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.client.client import Client
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode, RefusedError
from tests.interop.kafka_broker import start_kafka
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.test_moved_voters import describe_status
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

KAFKAS_CONTROLLER = CONTROLLERS[2]


@pytest.mark.usefixtures("kafka_jars")
def test_r11_the_directory_of_kafkas_voter_is_recorded(tmp_path: Path) -> None:
    """Kafka's voter sends UpdateRaftVoter to our leader at kraft.version 0, and keeps voting at 1.

    Only UpdateFeatures raises kraft.version, as in Kafka.
    """
    quorum = Quorum(tmp_path)
    try:
        quorum.start(*CONTROLLERS[:2], BROKER)
        assert level(quorum) == 0
        with start_kafka(quorum.file(KAFKAS_CONTROLLER), str(tmp_path)):
            deadline = Deadline(LIMIT_S)
            while not raise_level(quorum):
                assert level(quorum) == 0
                assert not deadline.is_over, describe_status(quorum)
            assert level(quorum) == 1
            status = describe_status(quorum)
            assert [voter["id"] for voter in status["CurrentVoters"]] == list(CONTROLLERS)
            assert all(voter["directoryId"] for voter in status["CurrentVoters"])
            our_follower = next(i for i in CONTROLLERS[:2] if i != status["LeaderId"])
            quorum.kill(our_follower)
            with Client(quorum.address) as client:
                client.create_topic("by-one-of-ours-and-kafkas")
    finally:
        quorum.end()


def raise_level(quorum: Quorum) -> bool:
    """Raise kraft.version; refused while the leader does not know every directory."""
    with Client(quorum.address) as client:
        try:
            client.update_features({"kraft.version": 1})
        except RefusedError as error:
            assert error.code == ErrorCode.INVALID_UPDATE_VERSION  # noqa: PT017 - repeated until it succeeds
            return False
    return True


def level(quorum: Quorum) -> int:
    """The cluster's level of kraft.version."""
    with Client(quorum.address) as client:
        levels = {it.name: it.level for it in client.features().features}
    return levels["kraft.version"]
