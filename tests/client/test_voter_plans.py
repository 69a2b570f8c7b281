"""Why a controller cannot be added now, from the leader's DescribeQuorum (R2, R4)."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.client import nodes, voter_plans
from kraftlog.client.admin import Admin
from kraftlog.client.cluster import Cluster
from kraftlog.client.deadline import Deadline
from kraftlog.client.nodes import Feature, Features, Quorum, Replica
from kraftlog.errors import ConfigError, ErrorCode, RefusedError
from kraftlog.types import NULL_UUID
from kraftlog.wire.messages.add_raft_voter import AddRaftVoterRequest
from kraftlog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    PartitionResult,
    TopicResult,
)

TIMEOUT_S = 0.5
#: The node to add, its directory, and the end of the leader's log.
NEW_ID, NEW_DIRECTORY, LOG_END = 4, b"4" * 16, 50
REMEDY = "raise it with kraftlog features upgrade --feature kraft.version=1"
NEWCOMER = Replica(NEW_ID, NEW_DIRECTORY, LOG_END, 900, 890)


def replica(voter: int, reason: str = "") -> Replica:
    return Replica(voter, bytes([voter]) * 16, LOG_END, 900, 890, lag_reason=reason)


def quorum_with(observer: Replica | None = NEWCOMER, **changes: Any) -> Quorum:
    """Leader 1 of three voters, and the newcomer as an observer."""
    voters = tuple([replica(each) for each in (1, 2, 3)])
    observers = () if observer is None else (observer,)
    quorum = Quorum(
        leader_id=1,
        leader_epoch=7,
        high_watermark=LOG_END,
        voters=voters,
        observers=observers,
        listeners=(),
    )
    return quorum.replace(**changes)


def dry_run_error(monkeypatch: pytest.MonkeyPatch, quorum: Quorum, level: int = 1) -> str:
    """The error text of a dry run; "" if there is none."""
    levels = Features((Feature("kraft.version", 0, 1, level),), 1)
    monkeypatch.setattr(nodes, "features", lambda *_, **__: levels)
    try:
        voter_plans.check_addition(None, quorum, NEW_ID, NEW_DIRECTORY)  # type: ignore[arg-type]  # unused
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (quorum_with(None), "it is not fetching from leader 1: start it"),
        (quorum_with(NEWCOMER.replace(lag_reason="down")), "not fetching any more (down)"),
        (quorum_with(NEWCOMER.replace(lag_reason="silent")), "not fetching any more (silent)"),
        (quorum_with(NEWCOMER.replace(lag_reason="snapshot")), "has to load a snapshot"),
        (quorum_with(NEWCOMER.replace(lag_reason="refused")), "the leader refuses its fetches"),
        (
            quorum_with(NEWCOMER.replace(log_end_offset=8, last_caught_up_ms=None)),
            "it lags by 42 records and has never caught up",
        ),
        (
            quorum_with(committed_voters=(1, 2, 3), uncommitted_voters_offset=15),
            "the voter change at offset 15 is not committed yet (voters without it: 1, 2, 3)",
        ),
        (quorum_with(targets=(1, 9)), "the voters are being moved to 1, 9: wait, or cancel that"),
        (
            quorum_with(voters=(replica(1), replica(2, "silent"), replica(3, "never-fetched"))),
            "no majority of the voters fetches (not fetching: 2, 3)",
        ),
    ],
)
def test_r4_reasons_of_the_leader_to_refuse_are_named(
    quorum: Quorum, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors of a dry run and of a timeout both name the reason."""
    error = dry_run_error(monkeypatch, quorum)
    assert error.startswith("controller 4 cannot be added: ")
    assert expected in error
    assert expected in timeout_cause(monkeypatch, quorum)


def timeout_cause(monkeypatch: pytest.MonkeyPatch, quorum: Quorum) -> str:
    monkeypatch.setattr(nodes, "quorum", lambda *_: quorum)
    return voter_plans._why_timed_out(None, NEW_ID, NEW_DIRECTORY, "h:9093", Deadline(0))  # type: ignore[arg-type]  # unused


def test_r4_a_caught_up_observer_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small lag does not matter, nor does one voter of three that is down."""
    voters = (replica(1), replica(2), replica(3, "down"))
    lagging = NEWCOMER.replace(log_end_offset=LOG_END - 3, lag_reason="catching-up")
    quorum = quorum_with(lagging, voters=voters)
    assert dry_run_error(monkeypatch, quorum) == ""
    assert voter_plans.addition_plan(quorum, NEW_ID, NEW_DIRECTORY).lag == 3
    assert timeout_cause(monkeypatch, quorum).startswith("it lags by 3 records: wait until")
    assert "no response from it at h:9093" in timeout_cause(monkeypatch, quorum_with())


def test_r11_no_voter_is_added_at_kraft_version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = dry_run_error(monkeypatch, quorum_with(), level=0)
    assert "kraft.version is 0" in refused
    assert REMEDY in refused


def test_the_requests_that_add_a_voter_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a timeout, describing the quorum to find the cause gets a second of its own."""
    partition = PartitionResult(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=1,
        high_watermark=1,
        current_voters=(),
        observers=(),
    )
    topic = TopicResult(topic_name="__cluster_metadata", partitions=[partition])
    described = DescribeQuorumResponse(error_code=0, topics=[topic])
    limits: list[Deadline] = []

    def call(_: Cluster, request: Any, *__: Any, deadline: Deadline, **___: Any) -> Any:
        limits.append(deadline)
        if isinstance(request, AddRaftVoterRequest):
            assert request.timeout_ms <= TIMEOUT_S * 1000
            raise RefusedError(ErrorCode.REQUEST_TIMED_OUT, api="AddRaftVoter", broker="b")
        return described

    monkeypatch.setattr(Cluster, "call", call)
    with Admin("h:1", timeout_s=TIMEOUT_S) as admin:
        with pytest.raises(RefusedError, match="it is not fetching"):
            admin.add_voter(NEW_ID, NEW_DIRECTORY, [("C", "h", 9093)])
        described_before, added, described_after = limits
        assert described_before is added
        assert described_after.left_s() <= voter_plans.EXPLAIN_S


def test_a_dry_run_refuses_invalid_listeners() -> None:
    with Admin("h:1") as admin, pytest.raises(TypeError):
        admin.add_voter(NEW_ID, NEW_DIRECTORY, 9093, dry_run=True)  # type: ignore[arg-type]  # invalid


def test_r11_a_voter_without_directory_id_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    voter = replica(2).replace(directory_id=NULL_UUID)
    monkeypatch.setattr(nodes, "quorum", lambda *_, **__: quorum_with(voters=(replica(1), voter)))
    with pytest.raises(ConfigError, match=REMEDY):
        nodes.voter_directory(None, 2)  # type: ignore[arg-type]  # unused
