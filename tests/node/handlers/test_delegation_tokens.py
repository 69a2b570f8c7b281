"""Requests about delegation tokens: who may send them, how they reach the controller, logins."""

from __future__ import annotations

from base64 import b64encode
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.authorization.acls import Operation
from kraftlog.authorization.acls import ResourceType as Type
from kraftlog.errors import ErrorCode
from kraftlog.node import authentication
from kraftlog.sasl import initiate
from kraftlog.sasl.delegation_tokens import MAX_RENEWERS, hmac_of, password_of
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages import create_delegation_token as creation
from kraftlog.wire.messages import describe_delegation_token as description
from kraftlog.wire.messages.envelope import EnvelopeRequest
from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kraftlog.wire.messages.metadata_records import DelegationTokenRecord
from kraftlog.wire.messages.principal import DefaultPrincipalData
from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kraftlog.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.node.frame_client import FrameClient
from tests.node.test_access import AUTHORIZER, allow
from tests.node.test_authentication import Client
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import SETTINGS, VirtualHost

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

SECRET, EXPIRY_MS = "the key of this cluster", 50_000
TOKENS = f"""\
delegation.token.secret.key={SECRET}
delegation.token.expiry.time.ms={EXPIRY_MS}
"""
LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:9092,IN://127.0.0.1:9094,TLS://127.0.0.1:9095,\
CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
"""
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ALICE, BOB, CAROL, ANONYMOUS = "User:alice", "User:bob", "User:carol", "User:ANONYMOUS"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
KEYS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def make_host(more: str = TOKENS) -> VirtualHost:
    return VirtualHost(None, SETTINGS + LISTENERS + more)


@pytest.fixture
def host() -> VirtualHost:
    return make_host()


def create(owner: str = "", *renewers: str) -> creation.CreateDelegationTokenRequest:
    kind, _, name = owner.partition(":")
    return creation.CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            creation.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in [each.partition(":") for each in renewers]
        ],
        max_lifetime_ms=-1,
    )


def describe(*owners: str) -> description.DescribeDelegationTokenRequest:
    """Of all tokens, without owners."""
    parts = [each.partition(":") for each in owners]
    named = [
        description.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
        for kind, _, name in parts
    ]
    return description.DescribeDelegationTokenRequest(owners=named or None)


def example(key: int) -> Message:
    requests: dict[int, Message] = {
        ApiKey.CREATE_DELEGATION_TOKEN: create(),
        ApiKey.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
        ApiKey.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest(
            hmac=b"x", expiry_time_period_ms=1
        ),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: describe(),
    }
    return requests[key]


def client_of(
    host: VirtualHost, principal: str, listener: str = "IN", serves: int = BROKER
) -> FrameClient:
    client = FrameClient(host, serves, listener)
    client.connection.principal = principal
    return client


def ask(
    host: VirtualHost,
    key: int,
    request: Message,
    principal: str = ALICE,
    *,
    version: int | None = None,
    listener: str = "IN",
) -> Any:
    client = client_of(host, principal, listener)
    client.send(key, APIS[key].last if version is None else version, request)
    host.settle()
    [(_, response)] = client.take()
    return response


def created(host: VirtualHost, principal: str = ALICE, *renewers: str, owner: str = "") -> Any:
    response = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, create(owner, *renewers), principal)
    assert response.error_code == ErrorCode.NONE
    return response


def described(host: VirtualHost, principal: str = ALICE, *owners: str) -> list[str]:
    """The owners of the tokens that a client sees."""
    response = ask(host, ApiKey.DESCRIBE_DELEGATION_TOKEN, describe(*owners), principal)
    assert response.error_code == ErrorCode.NONE
    return [f"{it.principal_type}:{it.principal_name}" for it in response.tokens]


# Who may ask -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("listener", "principal", "is_allowed"),
    [
        pytest.param("PLAINTEXT", ANONYMOUS, False, id="plaintext"),
        pytest.param("TLS", ANONYMOUS, False, id="tls"),
        pytest.param("TLS", "User:CN=alice", True, id="certificate"),
        pytest.param("IN", ALICE, True, id="sasl"),
        pytest.param("unknown", ALICE, False, id="unknown-listener"),
    ],
)
def test_only_who_has_proved_an_identity_may_ask(
    host: VirtualHost, key: int, listener: str, principal: str, is_allowed: bool
) -> None:
    for version in range(APIS[key].first, APIS[key].last + 1):
        response = ask(host, key, example(key), principal, version=version, listener=listener)
        assert (response.error_code != NOT_ALLOWED) is is_allowed


@pytest.mark.parametrize("key", KEYS)
def test_who_has_logged_in_by_a_token_may_not_ask(host: VirtualHost, key: int) -> None:
    client = client_of(host, ALICE)
    connection: Any = client.connection
    connection.authenticator = SimpleNamespace(is_by_token=True)  # as the server's have it
    client.send(key, APIS[key].last, example(key))
    host.settle()
    assert client.take()[0][1].error_code == NOT_ALLOWED


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("more", ["", "delegation.token.secret.key=\n"], ids=["unset", "empty"])
def test_without_a_secret_tokens_are_disabled(key: int, more: str) -> None:
    assert ask(make_host(more), key, example(key)).error_code == DISABLED


@pytest.mark.parametrize(("version", "requester"), [(1, ""), (2, ""), (3, "alice")])
def test_refusals_name_owner_and_requester(host: VirtualHost, version: int, requester: str) -> None:
    response = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, create("", "Group:a"), version=version)
    assert response == creation.CreateDelegationTokenResponse(
        error_code=ErrorCode.INVALID_PRINCIPAL_TYPE,
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User" if requester else "",
        token_requester_principal_name=requester,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
    )


def test_too_many_renewers_are_refused_before_they_are_looked_at(host: VirtualHost) -> None:
    request = create("", *["Group:a"] * (MAX_RENEWERS + 1))
    response = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, request)
    assert response.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "requester"), [(1, ""), (2, ""), (3, "alice")])
def test_old_versions_do_not_name_the_requester(
    host: VirtualHost, version: int, requester: str
) -> None:
    token = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, create(), version=version)
    assert token.error_code == ErrorCode.NONE
    assert token.token_requester_principal_name == requester
    response = ask(host, ApiKey.DESCRIBE_DELEGATION_TOKEN, describe(), version=version)
    [shown] = response.tokens
    assert shown.token_requester_principal_name == requester
    assert (shown.token_id, shown.hmac) == (token.token_id, token.hmac)


# Who may see and create what ---------------------------------------------------------------------


def test_without_an_authorizer_everyone_sees_every_token(host: VirtualHost) -> None:
    created(host, ALICE, CAROL)
    created(host, BOB)
    assert described(host, "User:dave") == [ALICE, BOB]
    assert described(host, ALICE, BOB) == [BOB]
    assert described(host, ALICE, CAROL) == [ALICE]
    none = description.DescribeDelegationTokenRequest(owners=[])
    assert not ask(host, ApiKey.DESCRIBE_DELEGATION_TOKEN, none).tokens


def test_with_an_authorizer_others_tokens_need_an_acl() -> None:
    host = make_host(TOKENS + AUTHORIZER)
    token = created(host, ALICE, CAROL)
    created(host, BOB)
    assert described(host, ALICE) == [ALICE]
    assert described(host, CAROL) == [ALICE]
    assert described(host, "User:dave") == []
    allow(host, Operation.DESCRIBE, Type.DELEGATION_TOKEN, token.token_id, "User:dave")
    assert described(host, "User:dave") == [ALICE]
    allow(host, Operation.DESCRIBE_TOKENS, Type.USER, BOB, "User:dave")
    assert described(host, "User:dave") == [ALICE, BOB]
    assert described(host, "User:dave", BOB) == [BOB]
    assert described(host, "User:ANONYMOUS") == [ALICE, BOB]  # the super user


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_for_another_user_needs_create_tokens(version: int) -> None:
    host = make_host(TOKENS + AUTHORIZER)
    assert created(host, ALICE, owner=ALICE).error_code == ErrorCode.NONE
    request = create(BOB if version == 3 else "")
    response = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, request, version=version)
    if version < 3:  # it cannot name another user
        assert response.error_code == ErrorCode.NONE
        return
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (response.principal_name, response.token_requester_principal_name) == ("bob", "alice")
    allow(host, Operation.CREATE_TOKENS, Type.USER, BOB)
    assert created(host, ALICE, owner=BOB).principal_name == "bob"
    # Who has it may do nothing else with it.
    renewal = RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-1)
    renewal.hmac = ask(host, ApiKey.DESCRIBE_DELEGATION_TOKEN, describe(), BOB).tokens[0].hmac
    response = ask(host, ApiKey.RENEW_DELEGATION_TOKEN, renewal)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_who_may_not_ask_is_not_asked_about() -> None:
    host = make_host(TOKENS + AUTHORIZER)
    response = ask(host, ApiKey.CREATE_DELEGATION_TOKEN, create(BOB), listener="PLAINTEXT")
    assert response.error_code == NOT_ALLOWED
    assert not [line for line in host.log_lines if "denied" in line]


def test_a_refusal_to_create_is_logged_without_a_secret() -> None:
    host = make_host(TOKENS + AUTHORIZER)
    ask(host, ApiKey.CREATE_DELEGATION_TOKEN, create(BOB))
    [line] = [line for line in host.log_lines if "denied" in line]
    assert "CREATE_TOKENS" in line
    assert BOB in line
    assert SECRET not in "".join(host.log_lines)


def test_many_tokens_are_described_in_steps(host: VirtualHost) -> None:
    """While they are, some of them end."""
    records = [token_record(f"id-{number:03}") for number in range(500)]
    host.node.replay(records, host.node.quorum.applied)
    response = ask(host, ApiKey.DESCRIBE_DELEGATION_TOKEN, describe())
    assert [it.token_id for it in response.tokens] == [it.token_id for it in records]


def token_record(token_id: str, **changes: Any) -> DelegationTokenRecord:
    values = {
        "owner": ALICE,
        "requester": ALICE,
        "renewers": (),
        "issue_timestamp": 1,
        "max_timestamp": 2**62,
        "expiration_timestamp": 2**62,
        "token_id": token_id,
        **changes,
    }
    return DelegationTokenRecord(**values)


# In the log --------------------------------------------------------------------------------------


def renew(host: VirtualHost, token: Any) -> int:
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    code: int = ask(host, ApiKey.RENEW_DELEGATION_TOKEN, request).error_code
    return code


@pytest.mark.parametrize("has_snapshot", [False, True], ids=["log", "snapshot"])
def test_tokens_are_known_again_after_a_restart(*, has_snapshot: bool) -> None:
    more = "metadata.log.max.record.bytes.between.snapshots=1\n" if has_snapshot else ""
    host = make_host(TOKENS + more)
    token = created(host)
    host.settle()
    assert (host.node.quorum.core.log.snapshot is not None) is has_snapshot
    host.files.kill()
    again = VirtualHost(host.files, SETTINGS + LISTENERS + TOKENS + more)
    assert renew(again, token) == ErrorCode.NONE
    assert described(again) == [ALICE]


def test_expired_tokens_are_removed_by_a_timer() -> None:
    host = make_host(f"{TOKENS}delegation.token.expiry.check.interval.ms=60000\n")
    created(host)
    host.pass_time(EXPIRY_MS)
    host.settle()
    assert len(host.node.image.tokens) == 1
    host.pass_time(60_000 - EXPIRY_MS)
    host.settle()
    assert host.node.image.tokens == {}
    assert SECRET not in "".join(host.log_lines)


# On the way to the controller --------------------------------------------------------------------


class TokenNodes(ThreeNodes):
    """Three nodes with tokens; the connections of clients are as if they came by a listener IN."""

    more_settings = TOKENS + (
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        "\n"
    )


def test_every_broker_tells_the_controller_who_asks() -> None:
    nodes = TokenNodes(Random(1))
    nodes.loss = 0
    hmacs = []
    for number in NODES:
        host = nodes.hosts[number]
        client = client_of(host, f"User:user-{number}")
        client.send(ApiKey.CREATE_DELEGATION_TOKEN, number, create())
        nodes.settle(1000)
        [(_, response)] = client.take()
        assert response.error_code == ErrorCode.NONE
        assert response.principal_name == f"user-{number}"
        hmacs.append(response.hmac)
    for host in nodes.hosts.values():
        assert [it.owner for it in host.node.image.tokens.values()] == [
            f"User:user-{number}" for number in NODES
        ]
    for number, host in nodes.hosts.items():
        renewals = []
        for token_hmac in hmacs:
            client = client_of(host, f"User:user-{number}")
            request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=-1)
            client.send(ApiKey.RENEW_DELEGATION_TOKEN, 2, request)
            nodes.settle(1000)
            [(_, response)] = client.take()
            renewals.append(response.error_code)
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert renewals == [0 if each == number else mismatch for each in NODES]


def enveloped(
    host: VirtualHost,
    request: Message,
    key: int,
    *,
    is_by_token: bool = False,
    broken: bool = False,
) -> Any:
    """The response to a request that a broker forwards for alice, or the Envelope's error code."""
    version = APIS[key].last
    principal = DefaultPrincipalData(type="User", name="alice", token_authenticated=is_by_token)
    envelope = EnvelopeRequest(
        request_data=b"".join(request_frame(APIS[key], version, 1, "c", request))[4:],
        request_principal=None if broken else b"\0\0" + bytes(encode(principal, 0)),
        client_host_address=b"\x7f\0\0\1",
    )
    client = client_of(host, ANONYMOUS, "CONTROLLER", CONTROLLER)
    client.send(ApiKey.ENVELOPE, 0, envelope)
    host.settle()
    [(_, response)] = client.take()
    if response.error_code:
        return response.error_code
    return decode(APIS[key].response(), version, response.response_data, 5)


def test_brokers_of_kafka_forward_for_their_clients(host: VirtualHost) -> None:
    """They have looked at the client's listener, but the client may have come by a token."""
    key = ApiKey.CREATE_DELEGATION_TOKEN
    assert enveloped(host, create(), key).principal_name == "alice"
    assert enveloped(host, create(), key, is_by_token=True).error_code == NOT_ALLOWED
    refused = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert enveloped(host, create(), key, broken=True) == refused
    assert len(host.node.image.tokens) == 1


# Logins ------------------------------------------------------------------------------------------


class TokenClient(Client):
    """Logs in by a token on the listener IN."""

    def log_in(
        self,
        token_id: str,
        password: str,
        mechanism: str = "SCRAM-SHA-256",
        *,
        by_token: bool = True,
    ) -> SaslAuthenticateResponse:
        """The last response; the first that refuses."""
        exchange = initiate.scram(mechanism, token_id, password, "nonce", by_token=by_token)
        self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
        message = next(exchange)
        while True:
            request = SaslAuthenticateRequest(auth_bytes=message)
            answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, request)
            response = decode(SaslAuthenticateResponse, 2, answer[4:], 5)
            if response.error_code:
                return response
            try:
                message = exchange.send(bytes(response.auth_bytes))
            except StopIteration:
                return response


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_in_as_its_owner_until_it_expires(host: VirtualHost, mechanism: str) -> None:
    token = created(host, ALICE, owner=BOB)
    host.pass_time(1000)
    client = TokenClient(host)
    response = client.log_in(token.token_id, password_of(token.hmac), mechanism)
    assert response.error_code == ErrorCode.NONE
    remaining_ms = token.expiry_timestamp_ms - host.node.now.wall_ms
    # A refusal would have come after 100 ms.
    assert response.session_lifetime_ms == remaining_ms + 100
    assert EXPIRY_MS - 1500 < remaining_ms < EXPIRY_MS
    assert client.connection.principal == BOB
    assert client.connection.authenticator.is_by_token
    assert client.connection.gate is None
    host.pass_time(remaining_ms)
    host.settle()
    assert client.connection.gate is not None  # its session is over


def refusals(host: VirtualHost, token: Any) -> Any:
    return {
        "wrong password": TokenClient(host).log_in(token.token_id, password_of(b"x")),
        "no token": TokenClient(host).log_in("no-id", password_of(token.hmac)),
        "not by token": TokenClient(host).log_in(
            token.token_id, password_of(token.hmac), by_token=False
        ),
    }


def test_refused_tokens_look_like_refused_passwords(host: VirtualHost) -> None:
    token = created(host)
    expected = "Authentication failed during authentication due to invalid credentials"
    for response in refusals(host, token).values():
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message.startswith(expected)
    written = "".join(host.log_lines)
    for secret in (SECRET, token.hmac.hex(), b64encode(token.hmac).decode()):
        assert secret not in written


def test_a_token_that_ended_or_expired_lets_nobody_in(host: VirtualHost) -> None:
    token = created(host)
    password = password_of(token.hmac)
    assert TokenClient(host).log_in(token.token_id, password).error_code == ErrorCode.NONE
    host.pass_time(EXPIRY_MS + 1)
    assert token.token_id in host.node.image.tokens  # until the next check
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert TokenClient(host).log_in(token.token_id, password).error_code == refused
    again = created(host)
    request = ExpireDelegationTokenRequest(hmac=again.hmac, expiry_time_period_ms=-1)
    assert ask(host, ApiKey.EXPIRE_DELEGATION_TOKEN, request).error_code == ErrorCode.NONE
    assert TokenClient(host).log_in(again.token_id, password_of(again.hmac)).error_code == refused


def test_a_token_of_another_type_of_principal_lets_nobody_in(host: VirtualHost) -> None:
    """Kafka creates it, and would let its owner in as the user of this name."""
    host.node.replay([token_record("id", owner="Group:alice")], host.node.quorum.applied)
    response = TokenClient(host).log_in("id", password_of(hmac_of(SECRET, "id")))
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_tokens_of_the_log_let_nobody_in_without_the_secret() -> None:
    host = make_host("")
    host.node.replay([token_record("id")], host.node.quorum.applied)
    response = TokenClient(host).log_in("id", password_of(hmac_of("", "id")))
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_renewed_token_extends_the_next_session(host: VirtualHost) -> None:
    """On the same connection, before the end of the first session (KIP-368)."""
    token = created(host)
    client = TokenClient(host)
    first = client.log_in(token.token_id, password_of(token.hmac)).session_lifetime_ms
    host.pass_time(30_000)
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    assert ask(host, ApiKey.RENEW_DELEGATION_TOKEN, request).error_code == ErrorCode.NONE
    second = client.log_in(token.token_id, password_of(token.hmac)).session_lifetime_ms
    assert first - 1000 < second <= first
    host.pass_time(first - 1000)
    host.settle()
    assert client.connection.gate is None


def test_a_salt_tells_nobody_whether_there_is_a_token(host: VirtualHost) -> None:
    def salt(token_id: str) -> bytes:
        client = TokenClient(host)
        client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        request = SaslAuthenticateRequest(
            auth_bytes=f"n,,n={token_id},r=abc,tokenauth=true".encode()
        )
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, request)
        response = decode(SaslAuthenticateResponse, 2, answer[4:], 5)
        return bytes(response.auth_bytes).partition(b",s=")[2]

    before = salt("id")
    host.node.replay([token_record("id")], host.node.quorum.applied)
    assert salt("id") == before != salt("other")


def test_keys_of_tokens_are_kept_for_the_latest_alone(
    host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "KEPT_TOKEN_KEYS", 2)
    records = [token_record(f"id-{number}") for number in range(4)]
    host.node.replay(records, host.node.quorum.applied)
    for record in [*records, records[-1], records[0]]:
        password = password_of(hmac_of(SECRET, record.token_id))
        assert TokenClient(host).log_in(record.token_id, password).error_code == ErrorCode.NONE
    common = host.node.authentication
    assert common is not None
    assert [token_id for _, token_id in common._keys_of_tokens] == ["id-3", "id-0"]
