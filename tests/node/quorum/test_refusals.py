"""Requests of replicas and administrators that a node refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.metadata.features import KRAFT_VERSION
from kraftlog.node.api_table import SERVED, ServedApi
from kraftlog.node.quorum.requests import VERSIONS, request_to_wire
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC_ID, NULL_UUID, OffsetAndEpoch
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kraftlog.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from kraftlog.wire.messages.update_raft_voter import Listener as UpdatedListener
from tests.node.frame_client import FrameClient
from tests.node.quorum.test_snapshots import checkpoints, host_with_snapshots
from tests.virtual_host import CLUSTER_ID, VirtualHost

DIRECTORY = b"\x07" * 16
OTHER = ReplicaKey(7, DIRECTORY)


def changes_of_voters(cluster_id: str | None, epoch: int) -> list[tuple[int, int, Any]]:
    """Each request that changes voter 7: API, error code if the cluster id is accepted, request."""
    add = AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=0,
        voter_id=7,
        voter_directory_id=DIRECTORY,
        listeners=[Listener(name="CONTROLLER", host="h", port=1)],
    )
    remove = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=7, voter_directory_id=DIRECTORY)
    update = UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=7,
        voter_directory_id=DIRECTORY,
        listeners=[UpdatedListener(name="CONTROLLER", host="h", port=1)],
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )
    return [
        (ApiKey.ADD_RAFT_VOTER, ErrorCode.REQUEST_TIMED_OUT, add),
        (ApiKey.REMOVE_RAFT_VOTER, ErrorCode.VOTER_NOT_FOUND, remove),
        (ApiKey.UPDATE_RAFT_VOTER, ErrorCode.VOTER_NOT_FOUND, update),
    ]


@pytest.mark.parametrize("cluster_id", [CLUSTER_ID, None, "", "another"])
def test_voter_changes_check_the_cluster_id(cluster_id: str | None) -> None:
    """C86: a request with the right id or none is handled, and fails because voter 7 is unknown."""
    host = VirtualHost()
    client = FrameClient(host, CONTROLLER)
    is_accepted = cluster_id in {CLUSTER_ID, None}
    for api_key, accepted_code, request in changes_of_voters(cluster_id, host.node.quorum.epoch):
        response = client.ask(api_key, 0, request)
        expected = accepted_code if is_accepted else ErrorCode.INCONSISTENT_CLUSTER_ID
        assert response.error_code == expected, api_key


def test_the_refusal_to_remove_the_only_voter_says_so() -> None:
    host = VirtualHost()
    [voter] = host.node.quorum.core.log.voter_set.voters
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=voter.key.id, voter_directory_id=voter.key.directory_id
    )
    response = FrameClient(host, CONTROLLER).ask(ApiKey.REMOVE_RAFT_VOTER, 0, request)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "the only voter: add another one first" in response.error_message


#: Not this controller's listener.
OTHER_LISTENER = [UpdatedListener(name="ELSEWHERE", host="h", port=1)]


WRONG_FIELDS: dict[str, dict[str, Any]] = {
    "id": {"voter_id": -1},
    "directory": {"voter_directory_id": NULL_UUID},
    "no listener": {"listeners": ()},
    "another listener": {"listeners": OTHER_LISTENER},
}


@pytest.mark.parametrize("wrong_fields", WRONG_FIELDS.values(), ids=WRONG_FIELDS)
def test_r11_a_voter_needs_id_directory_and_endpoint(wrong_fields: dict[str, Any]) -> None:
    """Requests that lack one of them are refused, and do not erase a known directory."""
    host = VirtualHost()
    client = FrameClient(host, CONTROLLER)
    before = host.node.quorum.core.log.voter_set
    for api_key, _, request in changes_of_voters(CLUSTER_ID, host.node.quorum.epoch):
        for voter_id in (1, 7):
            if "listeners" in wrong_fields and api_key == ApiKey.REMOVE_RAFT_VOTER:
                continue
            wrong = request.replace(**{"voter_id": voter_id, **wrong_fields})
            assert client.ask(api_key, 0, wrong).error_code == ErrorCode.INVALID_REQUEST, api_key
    assert host.node.quorum.core.log.voter_set == before


def test_r11_a_voter_must_support_the_kraft_version() -> None:
    host = VirtualHost()
    *_, (api_key, _, request) = changes_of_voters(CLUSTER_ID, host.node.quorum.epoch)
    only_level_0 = KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
    response = FrameClient(host, CONTROLLER).ask(
        api_key, 0, request.replace(voter_id=1, k_raft_version_feature=only_level_0)
    )
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_r11_voters_change_only_once_all_directories_are_recorded() -> None:
    """Until then changes are refused, and kraft.version is reported as 0."""
    host = VirtualHost()
    client = FrameClient(host, CONTROLLER)

    def level() -> list[int]:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        response = client.ask(ApiKey.API_VERSIONS, 3, request)
        return [
            it.max_version_level for it in response.finalized_features if it.name == KRAFT_VERSION
        ]

    assert level() == [1]
    log = host.node.quorum.core.log
    log.voters.append(log.end - 1, log.voter_set.with_voter(Voter(ReplicaKey(2))))
    assert level() == []
    requests = changes_of_voters(CLUSTER_ID, host.node.quorum.epoch)
    codes = [client.ask(api_key, 0, request).error_code for api_key, _, request in requests]
    assert codes == [
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.VOTER_NOT_FOUND,
    ]


def test_r11_update_features_raises_kraft_version() -> None:
    """A request with validate_only adds no record, nor does one that repeats the level."""
    host = VirtualHost(voters=VoterSet((Voter(ReplicaKey(1), (Endpoint("CONTROLLER", "h", 1),)),)))
    host.settle()
    client = FrameClient(host, CONTROLLER)
    log = host.node.quorum.core.log

    def raise_level(**fields: Any) -> int:
        key = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
        request = UpdateFeaturesRequest(feature_updates=[key], **fields)
        return int(client.ask(ApiKey.UPDATE_FEATURES, 1, request).error_code)

    assert log.voter_set.kraft_version == 0
    end = log.end
    assert (raise_level(validate_only=True), log.end) == (0, end)
    assert (raise_level(), log.end, log.voter_set.kraft_version) == (0, end + 2, 1)
    assert (raise_level(), log.end) == (0, end + 2)
    assert log.voter_set.voters[0].key == host.node.quorum.core.me


REQUESTS = [
    raft.Vote(None, OTHER, 5, OTHER, 4, 100, pre_vote=True),
    raft.BeginEpoch(None, OTHER, 1, 5),
    raft.EndEpoch(None, 1, 5, ()),
    raft.SnapshotFetch(None, OTHER, 5, OffsetAndEpoch(0, 0), 0, 100),
    raft.ReadOffset(None),
]


def for_other_partition(request: Any, topic: str | None, index: int | None) -> Any:
    """The same request for another topic, or another partition of the metadata topic."""
    [metadata] = request.topics
    [partition] = metadata.partitions
    name_field = "name" if hasattr(metadata, "name") else "topic_name"
    index_field = "partition" if hasattr(partition, "partition") else "partition_index"
    if index is not None:
        partition = partition.replace(**{index_field: index})
    changed = {} if topic is None else {name_field: topic}
    return request.replace(topics=[metadata.replace(partitions=[partition], **changed)])


@pytest.mark.parametrize("body", REQUESTS, ids=lambda body: type(body).__name__)
@pytest.mark.parametrize(("topic", "index"), [("orders", None), (None, 1)])
def test_a_request_for_another_partition_is_refused_with_its_name(
    body: Any, topic: str | None, index: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C88: the response names that partition; the core does not get the request."""
    monkeypatch.setitem(
        SERVED, ApiKey.READ_OFFSET, ServedApi(ApiKey.READ_OFFSET, "handlers.quorum", 0, 0)
    )
    host = VirtualHost()
    before = host.node.quorum.core.key()
    api_key, request = request_to_wire(body)
    changed = for_other_partition(request, topic, index)
    response = FrameClient(host, CONTROLLER).ask(api_key, VERSIONS[api_key], changed)
    [result] = response.topics
    [partition] = result.partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = result.name if hasattr(result, "name") else result.topic_name
    number = partition.index if hasattr(partition, "index") else partition.partition_index
    assert (name, number) == (topic or "__cluster_metadata", index or 0)
    assert host.node.quorum.core.key() == before


def test_a_fetch_of_another_metadata_partition_is_refused() -> None:
    """C88: the error is UNKNOWN_TOPIC_ID, as for any unknown partition."""
    host = VirtualHost()
    fetch = raft.Fetch(None, OTHER, host.node.quorum.epoch, 0, -1, -1, 0, 100)
    api_key, request = request_to_wire(fetch)
    [topic] = request.topics  # type: ignore[attr-defined]  # it is a FetchRequest
    other_partition = topic.replace(partitions=[topic.partitions[0].replace(partition=1)])
    response = FrameClient(host, CONTROLLER).ask(
        api_key, 18, request.replace(topics=[other_partition])
    )
    [result] = response.responses
    assert result.topic_id == METADATA_TOPIC_ID
    assert [(it.partition_index, it.error_code) for it in result.partitions] == [
        (1, ErrorCode.UNKNOWN_TOPIC_ID)
    ]


@pytest.mark.parametrize(
    ("beyond", "error"), [(-1, 0), (0, 0), (1, ErrorCode.POSITION_OUT_OF_RANGE)]
)
def test_a_position_beyond_the_end_of_a_snapshot_is_out_of_range(beyond: int, error: int) -> None:
    """C97: the end itself is a valid position, without data."""
    host = host_with_snapshots()
    name, _ = checkpoints(host)
    size = host.files.size_of(f"data/__cluster_metadata-0/{name}")
    core = host.node.quorum.core
    assert core.log.snapshot is not None
    fetch = raft.SnapshotFetch(
        CLUSTER_ID, OTHER, host.node.quorum.epoch, core.log.snapshot, size + beyond, 100
    )
    api_key, request = request_to_wire(fetch)
    response = FrameClient(host, CONTROLLER).ask(api_key, 1, request)
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.size) == (error, size)
    assert len(partition.unaligned_records) == max(-beyond, 0)
