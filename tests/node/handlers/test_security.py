"""ACLs and tokens are refused; credentials and quotas of the log are described.

tests/interop/test_responses.py compares responses with those of Kafka 4.3.1 without an authorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages import create_acls, create_delegation_token, delete_acls
from kraftlog.wire.messages import describe_client_quotas as quotas
from kraftlog.wire.messages import describe_user_scram_credentials as scram
from kraftlog.wire.messages.metadata_records import (
    ClientQuotaRecord,
    EntityData,
    UserScramCredentialRecord,
)
from tests.node.frame_client import FrameClient, make_host

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

SHA_256 = 1
DISABLED = ErrorCode.SECURITY_DISABLED


@pytest.fixture
def host() -> VirtualHost:
    """A node whose metadata log has credentials and quotas that a Kafka cluster stored."""
    host = make_host()
    alice = UserScramCredentialRecord(
        name="alice",
        mechanism=SHA_256,
        salt=b"s",
        stored_key=b"k",
        server_key=b"v",
        iterations=4096,
    )
    entities: list[list[tuple[str, str | None]]] = [
        [("user", "alice")],
        [("user", None)],
        [("user", "alice"), ("client-id", "c")],
    ]
    limits = [
        ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            key="producer_byte_rate",
            value=float(number),
            remove=False,
        )
        for number, entity in enumerate(entities)
    ]
    host.node.replay([alice, *limits], 100)
    return host


def ask(host: VirtualHost, api_key: int, request: Any, listener: int = BROKER) -> Any:
    return FrameClient(host, listener).ask(api_key, APIS[api_key].last, request)


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_acls_are_refused_one_by_one(host: VirtualHost, listener: int) -> None:
    acl: Any = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    creation = create_acls.AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, **acl
    )
    request: Any = create_acls.CreateAclsRequest(creations=[creation] * 2)
    created = ask(host, ApiKey.CREATE_ACLS, request, listener)
    assert [it.error_code for it in created.results] == [DISABLED] * 2
    match_all = delete_acls.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    request = delete_acls.DeleteAclsRequest(filters=[match_all])
    deleted = ask(host, ApiKey.DELETE_ACLS, request, listener)
    assert [it.error_code for it in deleted.filter_results] == [DISABLED]


@pytest.mark.parametrize(("version", "requester"), [(2, ""), (3, "ANONYMOUS")])
def test_delegation_tokens_need_authentication(
    host: VirtualHost, version: int, requester: str
) -> None:
    request = create_delegation_token.CreateDelegationTokenRequest(renewers=(), max_lifetime_ms=-1)
    response = FrameClient(host).ask(ApiKey.CREATE_DELEGATION_TOKEN, version, request)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert response.token_requester_principal_name == requester


def describe_credentials(host: VirtualHost, *users: str) -> dict[str, Any]:
    named = [scram.UserName(name=user) for user in users]
    request = scram.DescribeUserScramCredentialsRequest(users=named or None)
    response = ask(host, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    return {it.user: it for it in response.results}


def test_credentials_of_the_log_are_described(host: VirtualHost) -> None:
    (info,) = describe_credentials(host)["alice"].credential_infos
    assert (info.mechanism, info.iterations) == (SHA_256, 4096)
    assert describe_credentials(host, "bob")["bob"].error_code == ErrorCode.RESOURCE_NOT_FOUND
    twice = describe_credentials(host, "alice", "alice")
    assert list(twice) == ["alice"]
    assert twice["alice"].error_code == ErrorCode.DUPLICATE_RESOURCE


#: A component of a filter: entity type, match type, match.
ANY_USER = ("user", 2, None)


@pytest.mark.parametrize(
    ("components", "strict", "expected_values"),
    [
        ([], False, [0, 1, 2]),
        ([ANY_USER], False, [0, 1, 2]),
        ([ANY_USER], True, [0, 1]),
        ([("user", 0, "alice")], True, [0]),
        ([("user", 1, None)], False, [1]),
        ([ANY_USER, ("client-id", 0, "c")], True, [2]),
        ([("ip", 2, None)], False, []),
    ],
)
def test_quotas_of_the_log_are_described(
    host: VirtualHost,
    components: list[tuple[str, int, str | None]],
    strict: bool,
    expected_values: list[int],
) -> None:
    filters = [
        quotas.ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    request = quotas.DescribeClientQuotasRequest(components=filters, strict=strict)
    response = ask(host, ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    assert response.error_code == ErrorCode.NONE
    assert [entry.values[0].value for entry in response.entries] == expected_values
