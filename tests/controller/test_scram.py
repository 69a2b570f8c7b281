"""AlterUserScramCredentials, as Kafka's ScramControlManager decides."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import Image
from kraftlog.sasl.scram import keys_of
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.controller.cluster import Cluster

SHA_256, SHA_512, UNKNOWN = 1, 2, 3


def upsertion(
    name: str = "alice", mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=b"salted",
    )


def deletion(name: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    cluster: Cluster, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = cluster.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request).response
    return [(each.user, each.error_code) for each in response.results]


def test_credentials_are_stored_as_keys_and_kept_by_a_snapshot() -> None:
    cluster = Cluster()
    assert alter(cluster, upsertion(iterations=8192)) == [("alice", ErrorCode.NONE)]
    stored = cluster.committed.scram[SHA_256, "alice"]
    keys = keys_of("SCRAM-SHA-256", b"salted", b"salt", 8192)
    assert (stored.salt, stored.iterations) == (b"salt", 8192)
    assert (stored.stored_key, stored.server_key) == (keys.stored_key, keys.server_key)
    assert Image.of(list(cluster.committed.records())).scram == cluster.committed.scram
    assert alter(cluster, deletion()) == [("alice", ErrorCode.NONE)]
    assert cluster.committed.scram == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16384), ErrorCode.NONE),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=bytes(1025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(mechanism=UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion(), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_changes_are_refused_with_kafkas_codes(
    change: ScramCredentialDeletion | ScramCredentialUpsertion, code: int
) -> None:
    """Another user of the same request is changed all the same."""
    cluster = Cluster()
    assert alter(cluster, change, upsertion("bob")) == [
        (change.name, code),
        ("bob", ErrorCode.NONE),
    ]
    assert (SHA_256, "bob") in cluster.committed.scram
    assert len(cluster.committed.scram) == 1 + (code == ErrorCode.NONE)


def test_nobody_is_changed_twice_by_one_request() -> None:
    cluster = Cluster()
    alter(cluster, upsertion())
    twice = ErrorCode.DUPLICATE_RESOURCE
    assert alter(cluster, deletion(), upsertion()) == [("alice", twice)]
    both = (upsertion("bob"), upsertion("bob", SHA_512))
    assert alter(cluster, *both) == [("bob", twice)]
    assert list(cluster.committed.scram) == [(SHA_256, "alice")]
    # As in Kafka, the first refusal stands.
    assert alter(cluster, upsertion("bob", UNKNOWN), upsertion("bob")) == [
        ("bob", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    ]
