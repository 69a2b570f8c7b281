"""Delegation tokens, as Kafka's DelegationTokenControlManager decides."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.delegation_tokens import TokenConfig
from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import Image
from kraftlog.sasl.delegation_tokens import MAX_NAMES_BYTES, MAX_RENEWERS
from kraftlog.types import uuid_text
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kraftlog.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kraftlog.wire.messages.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from kraftlog.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tests.controller.cluster import Cluster, numbered_id

if TYPE_CHECKING:
    from kraftlog.controller.decision import Decision

SECRET = "the key of this cluster"
MAX_MS, EXPIRY_MS, CHECK_MS = 70_000, 10_000, 3_600
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
FOREVER_MS = 2**63 - 1
#: The first id that a cluster gives away, and the second.
FIRST, SECOND = (uuid_text(numbered_id(number)) for number in (1, 2))


def cluster_with_tokens(**changes: Any) -> Cluster:
    values = {
        "secret": SECRET,
        "max_lifetime_ms": MAX_MS,
        "expiry_time_ms": EXPIRY_MS,
        "check_interval_ms": CHECK_MS,
        **changes,
    }
    return Cluster(tokens=TokenConfig(**values))


def hmac_of(token_id: str, secret: str = SECRET) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def renewer(principal: str) -> CreatableRenewers:
    kind, _, name = principal.partition(":")
    return CreatableRenewers(principal_type=kind, principal_name=name)


def create(
    cluster: Cluster,
    principal: str = ALICE,
    *renewers: str,
    owner: str = "",
    max_lifetime_ms: int = -1,
) -> Decision:
    kind, _, name = owner.partition(":")
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[renewer(each) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    return cluster.ask(ApiKey.CREATE_DELEGATION_TOKEN, request, principal=principal)


def renew(
    cluster: Cluster, principal: str, token_hmac: bytes, renew_period_ms: int = -1
) -> Decision:
    request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=renew_period_ms)
    return cluster.ask(ApiKey.RENEW_DELEGATION_TOKEN, request, principal=principal)


def expire(cluster: Cluster, principal: str, token_hmac: bytes, period_ms: int) -> Decision:
    request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
    return cluster.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, request, principal=principal)


def token_record(**changes: Any) -> DelegationTokenRecord:
    """The record of the first token, which alice creates for herself at the start."""
    values = {
        "owner": ALICE,
        "requester": ALICE,
        "renewers": [],
        "issue_timestamp": 1000,
        "max_timestamp": 1000 + MAX_MS,
        "expiration_timestamp": 1000 + EXPIRY_MS,
        "token_id": FIRST,
        **changes,
    }
    return DelegationTokenRecord(**values)


# Creating ----------------------------------------------------------------------------------------


def test_a_token_is_recorded_without_its_hmac_and_kept_by_a_snapshot() -> None:
    cluster = cluster_with_tokens()
    decision = create(cluster, ALICE, BOB, CAROL)
    assert decision.records == [token_record(renewers=[BOB, CAROL])]
    assert decision.response == CreateDelegationTokenResponse(
        error_code=0,
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=1000,
        expiry_timestamp_ms=1000 + EXPIRY_MS,
        max_timestamp_ms=1000 + MAX_MS,
        token_id=FIRST,
        hmac=hmac_of(FIRST),
    )
    assert Image.of(list(cluster.committed.records())).tokens == cluster.committed.tokens != {}


def test_a_token_for_another_user_names_its_requester() -> None:
    decision = create(cluster_with_tokens(), ALICE, owner=BOB)
    assert decision.records == [token_record(owner=BOB)]
    response = decision.response
    assert (response.principal_name, response.token_requester_principal_name) == ("bob", "alice")


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expiry_ms"),
    [
        pytest.param(-1, MAX_MS, EXPIRY_MS, id="default"),
        pytest.param(0, MAX_MS, EXPIRY_MS, id="zero-is-default"),
        pytest.param(MAX_MS + 1, MAX_MS, EXPIRY_MS, id="no-more-than-allowed"),
        pytest.param(MAX_MS - 1, MAX_MS - 1, EXPIRY_MS, id="less"),
        pytest.param(5, 5, 5, id="less-than-the-first-expiry"),
    ],
)
def test_a_token_lives_no_longer_than_asked_and_allowed(
    asked_ms: int, max_ms: int, expiry_ms: int
) -> None:
    (record,) = create(cluster_with_tokens(), max_lifetime_ms=asked_ms).records
    assert record == token_record(
        max_timestamp=1000 + max_ms, expiration_timestamp=1000 + expiry_ms
    )


def test_times_end_where_a_timestamp_does() -> None:
    cluster = cluster_with_tokens(max_lifetime_ms=FOREVER_MS, expiry_time_ms=FOREVER_MS)
    (record,) = create(cluster).records
    assert record == token_record(max_timestamp=FOREVER_MS, expiration_timestamp=FOREVER_MS)
    (renewed,) = renew(cluster, ALICE, hmac_of(FIRST)).records
    assert renewed == record


@pytest.mark.parametrize(
    ("renewers", "owner", "code"),
    [
        pytest.param(["Group:a"], "", ErrorCode.INVALID_PRINCIPAL_TYPE, id="renewer-type"),
        pytest.param([], "Group:a", ErrorCode.INVALID_PRINCIPAL_TYPE, id="owner-type"),
        pytest.param([], ":a", ErrorCode.INVALID_PRINCIPAL_TYPE, id="owner-without-type"),
        pytest.param([BOB] * MAX_RENEWERS, "", ErrorCode.NONE, id="most-renewers"),
        pytest.param([BOB] * (MAX_RENEWERS + 1), "", ErrorCode.INVALID_REQUEST, id="too-many"),
        pytest.param(["User:" + "b" * MAX_NAMES_BYTES], "", ErrorCode.NONE, id="longest-name"),
        pytest.param(
            ["User:" + "ö" * (MAX_NAMES_BYTES // 2 - 1), BOB],
            "",
            ErrorCode.INVALID_REQUEST,
            id="names-too-long",
        ),
        pytest.param(
            [],
            "User:" + "b" * (MAX_NAMES_BYTES + 1),
            ErrorCode.INVALID_REQUEST,
            id="owner-too-long",
        ),
    ],
)
def test_tokens_for_others_than_users_are_refused(
    renewers: list[str], owner: str, code: int
) -> None:
    decision = create(cluster_with_tokens(), ALICE, *renewers, owner=owner)
    assert decision.response.error_code == code
    assert bool(decision.records) is (code == ErrorCode.NONE)
    assert bool(decision.response.hmac) is (code == ErrorCode.NONE)


# Renewing and ending -----------------------------------------------------------------------------


@pytest.mark.parametrize("principal", [ALICE, CAROL])
@pytest.mark.parametrize(
    ("period_ms", "expected_ms"),
    [
        pytest.param(-1, EXPIRY_MS, id="default"),
        pytest.param(0, EXPIRY_MS, id="zero-is-default"),
        pytest.param(77, 77, id="less"),
        pytest.param(EXPIRY_MS + 1, EXPIRY_MS, id="no-more-than-allowed"),
    ],
)
def test_owner_and_renewers_renew_from_now_on(
    principal: str, period_ms: int, expected_ms: int
) -> None:
    cluster = cluster_with_tokens()
    create(cluster, BOB, CAROL, owner=ALICE)
    cluster.now_ms += 500
    decision = renew(cluster, principal, hmac_of(FIRST), period_ms)
    end_ms = 1500 + expected_ms
    assert decision.records == [
        token_record(requester=BOB, renewers=[CAROL], expiration_timestamp=end_ms)
    ]
    assert decision.response == RenewDelegationTokenResponse(
        error_code=0, expiry_timestamp_ms=end_ms
    )


def test_a_token_is_never_renewed_beyond_its_longest_life() -> None:
    cluster = cluster_with_tokens()
    create(cluster, max_lifetime_ms=EXPIRY_MS + 100)
    cluster.now_ms += EXPIRY_MS
    assert renew(cluster, ALICE, hmac_of(FIRST)).response.expiry_timestamp_ms == 11_100
    cluster.now_ms = 11_101
    assert renew(cluster, ALICE, hmac_of(FIRST)).response == RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=0
    )


@pytest.mark.parametrize(
    ("principal", "token_hmac", "late", "code"),
    [
        pytest.param(BOB, hmac_of(FIRST), 0, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, id="other"),
        pytest.param(
            # who asked for a token of another may not renew it, either
            CAROL, hmac_of(FIRST), 0, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, id="requester"
        ),
        pytest.param(ALICE, hmac_of(SECOND), 0, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, id="unknown"),
        pytest.param(ALICE, b"", 0, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, id="no-hmac"),
        pytest.param(
            ALICE, hmac_of(FIRST, "x"), 0, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, id="other-secret"
        ),
        pytest.param(ALICE, hmac_of(FIRST), 0, ErrorCode.NONE, id="last-moment"),
        pytest.param(ALICE, hmac_of(FIRST), 1, ErrorCode.DELEGATION_TOKEN_EXPIRED, id="expired"),
    ],
)  # fmt: skip
def test_tokens_are_renewed_and_shortened_only_by_their_own(
    principal: str, token_hmac: bytes, late: int, code: int
) -> None:
    """What has expired stays known until the next check."""
    cluster = cluster_with_tokens()
    create(cluster, CAROL, owner=ALICE)
    cluster.now_ms += EXPIRY_MS + late
    for decision in (
        renew(cluster, principal, token_hmac),
        expire(cluster, principal, token_hmac, EXPIRY_MS),
    ):
        assert decision.response.error_code == code
        assert bool(decision.records) is (code == ErrorCode.NONE)


def test_an_expired_token_of_others_is_reported_as_expired_first() -> None:
    """As by Kafka: a renewal looks at the time first, and the end of a token at who asks."""
    cluster = cluster_with_tokens()
    create(cluster)
    cluster.now_ms += EXPIRY_MS + 1
    assert (
        renew(cluster, BOB, hmac_of(FIRST)).response.error_code
        == ErrorCode.DELEGATION_TOKEN_EXPIRED
    )
    assert (
        expire(cluster, BOB, hmac_of(FIRST), 5).response.error_code
        == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )


@pytest.mark.parametrize("late", [0, 1])
def test_a_negative_period_ends_even_an_expired_token_at_once(late: int) -> None:
    cluster = cluster_with_tokens()
    create(cluster)
    cluster.now_ms += EXPIRY_MS + late
    decision = expire(cluster, ALICE, hmac_of(FIRST), -1)
    assert decision.records == [RemoveDelegationTokenRecord(token_id=FIRST)]
    assert decision.response == ExpireDelegationTokenResponse(
        error_code=0, expiry_timestamp_ms=cluster.now_ms
    )
    assert cluster.committed.tokens == {}
    again = expire(cluster, ALICE, hmac_of(FIRST), -1).response
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize(
    ("period_ms", "end_ms"),
    [
        pytest.param(0, 1000, id="now"),
        pytest.param(20_000, 21_000, id="later-than-before"),
        pytest.param(FOREVER_MS, 1000 + MAX_MS, id="no-later-than-allowed"),
    ],
)
def test_a_period_moves_the_end_of_a_token(period_ms: int, end_ms: int) -> None:
    cluster = cluster_with_tokens()
    create(cluster)
    decision = expire(cluster, ALICE, hmac_of(FIRST), period_ms)
    assert decision.records == [token_record(expiration_timestamp=end_ms)]
    assert decision.response.expiry_timestamp_ms == end_ms


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(create, id="create"),
        pytest.param(lambda it: renew(it, ALICE, hmac_of(FIRST)), id="renew"),
        pytest.param(lambda it: expire(it, ALICE, hmac_of(FIRST), -1), id="expire"),
    ],
)
def test_without_a_secret_there_are_no_tokens(ask: Any) -> None:
    cluster = Cluster()
    decision = ask(cluster)
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


# The check ---------------------------------------------------------------------------------------


def test_expired_tokens_are_removed_by_the_next_check() -> None:
    cluster = cluster_with_tokens(check_interval_ms=EXPIRY_MS)
    create(cluster)
    cluster.now_ms += 1
    create(cluster)
    cluster.now_ms += 1
    assert cluster.pass_time(EXPIRY_MS - 2) == []  # the first expires in this millisecond
    renew(cluster, ALICE, hmac_of(SECOND))
    assert cluster.pass_time(EXPIRY_MS - 1) == []
    assert cluster.pass_time(1) == [RemoveDelegationTokenRecord(token_id=FIRST)]
    assert list(cluster.committed.tokens) == [SECOND]


def test_a_token_beyond_its_longest_life_is_removed_whatever_its_end() -> None:
    cluster = cluster_with_tokens()
    cluster.propose([token_record(max_timestamp=1001, expiration_timestamp=FOREVER_MS)])
    cluster.log.append(token_record(max_timestamp=1001, expiration_timestamp=FOREVER_MS))
    cluster.commit()
    assert cluster.pass_time(CHECK_MS) == [RemoveDelegationTokenRecord(token_id=FIRST)]


def test_many_expired_tokens_are_removed_in_batches_without_a_pause() -> None:
    cluster = cluster_with_tokens(expiry_time_ms=1)
    for _ in range(5):
        create(cluster)
    context = cluster.controller._context
    context.config = context.config.replace(elections_at_once=2)
    cluster.now_ms += CHECK_MS
    removed = []
    while (decision := cluster.controller.poll(cluster.now, len(cluster.log))) is not None:
        removed.append(len(cluster.append(decision).records))
    assert removed == [2, 2, 1]
    assert cluster.committed.tokens == {}


def test_another_controller_knows_the_hmacs_of_its_snapshot() -> None:
    cluster = cluster_with_tokens()
    create(cluster)
    cluster.controller.install_snapshot(cluster.committed)
    cluster.state = cluster.controller.state
    assert renew(cluster, ALICE, hmac_of(FIRST)).response.error_code == ErrorCode.NONE


def test_tokens_that_were_never_committed_are_forgotten_with_their_hmacs() -> None:
    cluster = cluster_with_tokens()
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    cluster.ask(ApiKey.CREATE_DELEGATION_TOKEN, request, principal=ALICE, commit=False)
    assert cluster.state.token_ids == {hmac_of(FIRST): FIRST}
    cluster.controller.resign()
    assert cluster.state.token_ids == {} == cluster.state.tokens


def test_the_secret_is_in_no_repr() -> None:
    cluster = cluster_with_tokens()
    assert SECRET not in repr(cluster.controller._context.config)
