"""CreateAcls and DeleteAcls, as Kafka's AclControlManager decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.authorization.acls import Operation, PatternType, Permission, ResourceType, acl_key
from kraftlog.controller import acls as decisions
from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import Image
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kraftlog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from tests.controller.cluster import Cluster

if TYPE_CHECKING:
    from typing import Any

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
CREATION = {
    "resource_type": TOPIC,
    "resource_name": "orders",
    "resource_pattern_type": LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": Operation.READ,
    "permission_type": Permission.ALLOW,
}
FILTER: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def creation(**fields: Any) -> AclCreation:
    return AclCreation(**{**CREATION, **fields})


def deletion(**fields: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(**{**FILTER, **fields})


def secured() -> Cluster:
    return Cluster(has_authorizer=True)


def create(cluster: Cluster, *creations: AclCreation) -> list[tuple[int, str | None]]:
    response = cluster.ask(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=creations)).response
    return [(each.error_code, each.error_message) for each in response.results]


def delete(cluster: Cluster, *filters: DeleteAclsFilter) -> list[tuple[int, list[str]]]:
    """Codes, and the names of the resources of what was deleted."""
    response = cluster.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=filters)).response
    return [
        (each.error_code, [acl.resource_name for acl in each.matching_acls])
        for each in response.filter_results
    ]


def names(cluster: Cluster) -> list[str]:
    return [acl.resource_name for acl in cluster.committed.acls.values()]


def test_acls_are_created_once_and_kept_by_a_snapshot() -> None:
    cluster = secured()
    first, other = creation(), creation(resource_name="a", resource_pattern_type=PREFIXED)
    assert create(cluster, first, other, first) == [(ErrorCode.NONE, None)] * 3
    assert create(cluster, other) == [(ErrorCode.NONE, None)]
    assert names(cluster) == ["orders", "a"]
    assert all(key == acl.id for key, acl in cluster.committed.acls.items())
    assert list(acl_key(next(iter(cluster.committed.acls.values())))) == list(CREATION.values())
    assert Image.of(list(cluster.committed.records())).acls == cluster.committed.acls


CLUSTER_NAME = "The only valid name for the CLUSTER resource is kafka-cluster"
NO_COLON = " (no colon is present separating the principal type from the principal name)"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"resource_type": ResourceType.CLUSTER}, CLUSTER_NAME),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": -8}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 0}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, f"Could not parse principal from `alice`{NO_COLON}"),
        ({"principal": ""}, f"Could not parse principal from ``{NO_COLON}"),
        ({"host": ""}, "Host pattern cannot be null or empty"),
    ],
)
def test_invalid_acls_are_refused_in_kafkas_words(fields: dict[str, Any], reason: str) -> None:
    """Another ACL of the same request is created all the same."""
    cluster = secured()
    outcomes = create(cluster, creation(**fields), creation(resource_name="good"))
    assert outcomes == [(ErrorCode.INVALID_REQUEST, reason), (ErrorCode.NONE, None)]
    assert names(cluster) == ["good"]


@pytest.mark.parametrize(
    ("host", "at_least", "outcome"),
    [
        ("10.0.0.0/8", 31, ErrorCode.UNSUPPORTED_VERSION),
        ("10.0.0.0/99", 31, ErrorCode.UNSUPPORTED_VERSION),
        ("10.0.0.0/8", 32, ErrorCode.NONE),
        ("fd00::/16", 32, ErrorCode.NONE),
        ("10.0.0.0/33", 32, ErrorCode.INVALID_REQUEST),
        ("a/8", 32, ErrorCode.INVALID_REQUEST),
        ("any.text", 31, ErrorCode.NONE),
    ],
)
def test_networks_need_the_level_that_has_them(host: str, at_least: int, outcome: int) -> None:
    cluster = secured()
    cluster.append(
        Decision([FeatureLevelRecord(name="metadata.version", feature_level=at_least)], None)
    )
    assert create(cluster, creation(host=host))[0][0] == outcome


@pytest.mark.parametrize(
    ("fields", "deleted"),
    [
        ({}, ["orders", "orders", "ord", "*", "orders"]),
        ({"resource_type_filter": TOPIC}, ["orders", "orders", "ord", "*"]),
        ({"resource_name_filter": "orders"}, ["orders", "orders", "orders"]),
        ({"pattern_type_filter": PREFIXED}, ["ord"]),
        (
            {"pattern_type_filter": PatternType.MATCH, "resource_name_filter": "orders"},
            ["orders", "orders", "ord", "*", "orders"],
        ),
        ({"pattern_type_filter": PatternType.MATCH, "resource_name_filter": "or"}, ["*"]),
        ({"pattern_type_filter": LITERAL, "resource_name_filter": "ord"}, []),
        ({"principal_filter": "User:bob"}, ["orders"]),
        ({"host_filter": "10.0.0.1"}, ["ord"]),
        ({"operation": Operation.WRITE}, ["*"]),
        ({"permission_type": Permission.DENY}, ["*"]),
        (
            {
                "resource_type_filter": TOPIC,
                "resource_name_filter": "orders",
                "pattern_type_filter": LITERAL,
                "principal_filter": "User:alice",
                "host_filter": "*",
                "operation": Operation.READ,
                "permission_type": Permission.ALLOW,
            },
            ["orders"],
        ),
    ],
)
def test_what_matches_a_filter_is_deleted(fields: dict[str, Any], deleted: list[str]) -> None:
    cluster = secured()
    create(
        cluster,
        creation(),
        creation(principal="User:bob"),
        creation(resource_name="ord", resource_pattern_type=PREFIXED, host="10.0.0.1"),
        creation(resource_name="*", operation=Operation.WRITE, permission_type=Permission.DENY),
        creation(resource_type=ResourceType.GROUP),
    )
    assert (
        delete(cluster, deletion(**fields), deletion(**fields)) == [(ErrorCode.NONE, deleted)] * 2
    )
    assert len(cluster.committed.acls) == 5 - len(deleted)
    assert len(cluster.state.acl_ids) == 5 - len(deleted)
    assert delete(cluster, deletion(**fields)) == [(ErrorCode.NONE, [])]


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type_filter": 0},
        {"pattern_type_filter": 5},
        {"operation": 99},
        {"permission_type": -1},
    ],
)
def test_unknown_filters_are_refused_and_others_carried_out(fields: dict[str, Any]) -> None:
    cluster = secured()
    create(cluster, creation())
    outcomes = delete(cluster, deletion(**fields), deletion())
    assert outcomes == [(ErrorCode.INVALID_REQUEST, []), (ErrorCode.NONE, ["orders"])]


def test_more_than_a_batch_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "RECORDS_IN_BATCH", 2)
    cluster = secured()
    three = [creation(resource_name=name) for name in "abc"]
    assert {code for code, _ in create(cluster, *three)} == {ErrorCode.POLICY_VIOLATION}
    assert names(cluster) == []
    create(cluster, *three[:2], three[0])
    create(cluster, three[2])
    everything = delete(cluster, deletion(resource_name_filter="a"), deletion())
    assert everything == [(ErrorCode.INVALID_REQUEST, [])] * 2
    assert names(cluster) == ["a", "b", "c"]


def test_a_request_that_compares_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MAX_COMPARED", 5)
    cluster = secured()
    create(cluster, *[creation(resource_name=name) for name in "abc"])
    named = [deletion(resource_name_filter=name) for name in "abcabcd"]
    assert [len(each) for _, each in delete(cluster, named[6], *named[:5])] == [0, 1, 1, 1, 1, 1]
    create(cluster, *[creation(resource_name=name) for name in "abc"])
    everything = [deletion()] * 2
    assert delete(cluster, *everything) == [(ErrorCode.INVALID_REQUEST, [])] * 2
    assert names(cluster) == ["a", "b", "c"]


def test_without_an_authorizer_acls_cannot_be_changed() -> None:
    cluster = Cluster()
    disabled = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert create(cluster, creation(), creation()) == [disabled] * 2
    assert delete(cluster, deletion()) == [(ErrorCode.SECURITY_DISABLED, [])]


def test_an_acl_whose_creation_is_undone_can_be_created_again() -> None:
    cluster = secured()
    decision = cluster.decide(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[creation()]))
    cluster.propose(decision.records)
    assert len(cluster.state.acl_ids) == 1
    cluster.state.undo_uncommitted()
    assert cluster.state.acl_ids == {}
    assert create(cluster, creation()) == [(ErrorCode.NONE, None)]
    assert names(cluster) == ["orders"]
