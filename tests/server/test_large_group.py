"""A group of a thousand members, each with its own connection, does not delay others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.server.raw import RawClient, resident_kib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message
    from tests.server.node_process import NodeProcess

MEMBERS = 1000
#: The maximum, so that no member times out while the others join on a slow machine.
SESSION_MS = 1_800_000
VERSIONS = {ApiKey.FIND_COORDINATOR: 4, ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3}


def send(client: RawClient, key: int, request: Message) -> None:
    client.send(b"".join(request_frame(APIS[key], VERSIONS[key], 1, "raw", request)))


def receive(client: RawClient, key: int) -> Any:
    """The next response of a client, which must be of this API."""
    response = client.next_response()
    assert response is not None, "the node closed the connection"
    api, version = APIS[key], VERSIONS[key]
    return decode(api.response(), version, response[1][api.response_header_version(version) :])


def ask(client: RawClient, key: int, request: Message) -> Any:
    send(client, key, request)
    return receive(client, key)


def join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="large",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(60))],
    )


def sync(member_id: str, generation: int, assignments: list[Any]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="large", generation_id=generation, member_id=member_id, assignments=assignments
    )


@pytest.fixture
def members(node: NodeProcess) -> Iterator[list[RawClient]]:
    connected = [RawClient(node.port) for _ in range(MEMBERS)]
    yield connected
    for client in connected:
        client.close()


def request_member_ids(members: list[RawClient]) -> list[str]:
    """Request a member id for each client; wait until the coordinator is available."""
    ids: list[str] = []
    for client in members:
        while (response := ask(client, ApiKey.JOIN_GROUP, join(""))).error_code in {
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        }:
            pass
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        ids.append(response.member_id)
    return ids


def test_a_thousand_members_join_and_get_their_assignments(
    node: NodeProcess, members: list[RawClient]
) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["large"])
    response = ask(members[0], ApiKey.FIND_COORDINATOR, request)
    assert response.coordinators[0].error_code == ErrorCode.NONE
    ids = request_member_ids(members)
    assert ask(members[0], ApiKey.JOIN_GROUP, join(ids[0])).generation_id == 1
    for client, member_id in zip(members[1:], ids[1:], strict=True):
        send(client, ApiKey.JOIN_GROUP, join(member_id))
    with RawClient(node.port) as other:
        other.round_trip()  # while the new members wait for the first one
    send(members[0], ApiKey.JOIN_GROUP, join(ids[0]))
    responses = [receive(client, ApiKey.JOIN_GROUP) for client in members]
    assert {(response.error_code, response.generation_id) for response in responses} == {
        (ErrorCode.NONE, 2)
    }
    assert [response.member_id for response in responses] == ids
    leader = responses[0].leader
    response = responses[ids.index(leader)]
    assert {member.member_id for member in response.members} == set(ids)
    for client, member_id in zip(members, ids, strict=True):
        assignments = [SyncGroupRequestAssignment(member_id=i, assignment=i.encode()) for i in ids]
        send(
            client,
            ApiKey.SYNC_GROUP,
            sync(member_id, 2, assignments if member_id == leader else []),
        )
    for client, member_id in zip(members, ids, strict=True):
        assert receive(client, ApiKey.SYNC_GROUP).assignment == member_id.encode()
    assert resident_kib(node) < 200_000
    assert node.stop() == 0
