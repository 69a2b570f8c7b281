"""Our command describes the quorum through any node (Q34), kafka-python through a broker (D5)."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient

from kraftlog import Admin
from kraftlog.cli import main
from kraftlog.types import METADATA_TOPIC
from tests.client.waiting import until
from tests.server.quorum_of_processes import BROKER, CLUSTER_ID, CONTROLLERS, Quorum
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

FIRST, SECOND, _ = CONTROLLERS


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """One voter, and two observers: a controller and a broker."""
    folder: Path = tmp_path_factory.mktemp("quorum")
    quorum = Quorum(folder, dynamic=True)
    try:
        quorum.start(FIRST, SECOND, BROKER)
        with Admin(quorum.address, timeout_s=LIMIT_S) as admin:

            def fetching() -> list[int]:
                observers = admin.describe_quorum().observers
                return [each.id for each in observers if each.last_caught_up_ms is not None]

            until(fetching, [SECOND, BROKER])
        yield quorum
    finally:
        quorum.end()


def test_q34_the_quorum_is_described_by_brokers_and_controllers(
    quorum: Quorum, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = f"127.0.0.1:{quorum.ports[FIRST]}"
    for address in (["--bootstrap-server", quorum.address], ["--bootstrap-controller", controller]):

        def described(part: str, address: list[str] = address) -> Any:
            assert main(["quorum", "describe", part, "--json", *address]) == 0
            return json.loads(capsys.readouterr().out)

        status = described("--status")
        assert (status["ClusterId"], status["LeaderId"]) == (CLUSTER_ID, FIRST)
        assert status["LeaderEpoch"] > 0
        assert status["HighWatermark"] > 0
        assert (status["MaxFollowerLag"], status["MaxFollowerLagTimeMs"]) == (0, 0)
        assert [each["id"] for each in status["CurrentVoters"]] == [FIRST]
        assert [each["id"] for each in status["CurrentObservers"]] == [SECOND, BROKER]
        assert not {"TargetVoters", "UncommittedVoterChange"} & set(status)
        rows = described("--replication")
        shown = [(each["NodeId"], each["Status"]) for each in rows]
        assert shown == [(FIRST, "Leader"), (SECOND, "Observer"), (BROKER, "Observer")]
        assert all(each["LogEndOffset"] > 0 and each["Lag"] >= 0 for each in rows)


def test_d5_kafka_python_describes_the_quorum(quorum: Quorum) -> None:
    """D1: through a broker, which forwards the request to the leader (D2)."""
    with closing(KafkaAdminClient(bootstrap_servers=quorum.address)) as client:
        quorum_info = client.describe_metadata_quorum()
    [topic] = quorum_info["topics"]
    assert topic["topic_name"] == METADATA_TOPIC
    [partition] = topic["partitions"]
    assert partition["error"] is None
    assert partition["leader_id"] == FIRST
    assert partition["leader_epoch"] > 0
    assert partition["high_watermark"] > 0
    assert [each["replica_id"] for each in partition["current_voters"]] == [FIRST]
    observers = {each["replica_id"]: each for each in partition["observers"]}
    assert sorted(observers) == [SECOND, BROKER]
    for each in observers.values():
        assert each["log_end_offset"] > 0
        assert each["last_fetch_timestamp"] >= each["last_caught_up_timestamp"] > 0
    [node] = quorum_info["nodes"]
    assert (node["node_id"], node["listeners"][0]["port"]) == (FIRST, quorum.ports[FIRST])
