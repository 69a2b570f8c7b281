"""`kraftlog quorum describe`: the status of the metadata quorum and of each replica (D6, Q34)."""

from __future__ import annotations

import json

from kraftlog.cli.show import print_json, print_table
from kraftlog.errors import error_name
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kraftlog.client.client import Client
    from kraftlog.client.nodes import Quorum, Replica


def run(client: Client, options: argparse.Namespace) -> None:
    quorum = client.describe_quorum()
    if options.status:
        print_status(client.describe_cluster().id, quorum, options)
    else:
        print_replication(quorum, options)


def _leader(quorum: Quorum) -> Replica | None:
    return next((v for v in quorum.voters if v.id == quorum.leader_id), None)


def _time_lag_ms(leader: Replica | None, replica: Replica) -> int | None:
    """How long ago the replica had the leader's whole log; None if that is unknown."""
    caught_up_ms = replica.last_caught_up_ms
    if leader is None or leader.last_caught_up_ms is None or caught_up_ms is None:
        return None
    return max(leader.last_caught_up_ms - caught_up_ms, 0)


def print_status(cluster_id: str, quorum: Quorum, options: argparse.Namespace) -> None:
    leader = _leader(quorum)
    followers = [v for v in quorum.voters if v.id != quorum.leader_id]
    lag = time_lag_ms = 0
    if leader is not None and followers:
        lag = leader.log_end_offset - min(each.log_end_offset for each in followers)
        time_lags_ms = [_time_lag_ms(leader, each) for each in followers]
        known_ms = [it for it in time_lags_ms if it is not None]
        time_lag_ms = max(known_ms) if len(known_ms) == len(followers) else -1
    listeners = dict(quorum.listeners)
    voters = [_member(each, listeners.get(each.id, ())) for each in quorum.voters]
    observers = [_member(each, ()) for each in quorum.observers]
    lines: dict[str, object] = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": time_lag_ms,
        "CurrentVoters": voters,
        "CurrentObservers": observers,
    }
    if quorum.targets is not None:
        lines |= {"TargetVoters": list(quorum.targets), "WaitsFor": list(quorum.awaited_targets)}
    if quorum.committed_voters is not None:
        lines["UncommittedVoterChange"] = {
            "offset": quorum.uncommitted_voters_offset,
            "committedVoters": list(quorum.committed_voters),
        }
    if options.json:
        print_json(lines)
        return
    for name, value in lines.items():
        shown = json.dumps(value) if isinstance(value, list | dict) else value
        print(f"{name + ':':<24}{shown}")


def _member(replica: Replica, listeners: tuple[tuple[str, str, int], ...]) -> dict[str, object]:
    result: dict[str, object] = {"id": replica.id, "directoryId": uuid_text(replica.directory_id)}
    if not any(replica.directory_id):
        result["directoryId"] = None
    if listeners:
        result["endpoints"] = [f"{name}://{host}:{port}" for name, host, port in listeners]
    return result


def print_replication(quorum: Quorum, options: argparse.Namespace) -> None:
    from kraftlog.client.deadline import wall_ms

    leader = _leader(quorum)
    end = leader.log_end_offset if leader is not None else quorum.high_watermark
    now_ms = wall_ms()

    def time_shown(time_ms: int | None) -> object:
        if time_ms is None:
            return None
        return f"{now_ms - time_ms} ms ago" if options.human_readable else time_ms

    followers = [replica for replica in quorum.voters if replica is not leader]
    replicas = [(leader, "Leader")] if leader is not None else []
    replicas += [(replica, "Follower") for replica in followers]
    replicas += [(replica, "Observer") for replica in quorum.observers]
    heads = ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LagTimeMs"]
    heads += ["LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]
    rows: list[list[object]] = [
        [
            replica.id,
            uuid_text(replica.directory_id),
            replica.log_end_offset,
            end - replica.log_end_offset,
            _time_lag_ms(leader, replica),
            time_shown(replica.last_fetch_ms),
            time_shown(replica.last_caught_up_ms),
            status,
        ]
        for replica, status in replicas
    ]
    if quorum.targets is not None:
        heads.append("IsReassignTarget")
        for row, (replica, _) in zip(rows, replicas, strict=True):
            row.append("Yes" if replica.is_target else "No")
    if any(replica.lag_reason for replica, _ in replicas):
        heads.append("LagReason")
        for row, (replica, _) in zip(rows, replicas, strict=True):
            row.append(_reason(replica))
    if options.json:
        print_json([dict(zip(heads, row, strict=True)) for row in rows])
    else:
        print_table(heads, rows)


def _reason(replica: Replica) -> str | None:
    """Why a replica lags, with the error of its last fetch."""
    if not replica.last_error:
        return replica.lag_reason or None
    return f"{replica.lag_reason} ({error_name(replica.last_error)})"
