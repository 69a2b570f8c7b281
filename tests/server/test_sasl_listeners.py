"""A node whose listeners have SASL: who may log in, and what everybody else gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.errors import AuthenticationError, ErrorCode
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest
from kraftlog.wire.messages.vote import VoteRequest
from tests.server.sasl_node import (
    BROKER,
    BROKER_PASSWORD,
    MECHANISMS,
    PASSWORD,
    SECRETS,
    USER,
    login,
    metrics,
    sasl_node,
)
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.wire.schema import Message
    from tests.server.node_process import NodeProcess

SESSION_MS = 800


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sasl")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[NodeProcess]:
    with sasl_node(folder, "connection.failed.authentication.delay.ms=10\n") as started:
        yield started


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_users_log_in_and_others_do_not(node: NodeProcess, mechanism: str) -> None:
    with Client(node.address, timeout_s=LIMIT_S, security=login(mechanism)) as client:
        assert len(client.describe_cluster().brokers) == 1
    texts = set()
    for wrong in (login(mechanism, password="wrong"), login(mechanism, user="nobody")):
        with (
            pytest.raises(AuthenticationError) as refused,
            Client(node.address, timeout_s=LIMIT_S, security=wrong) as client,
        ):
            client.describe_cluster()
        texts.add(str(refused.value).partition("refuses the login: ")[2])
    expected = f"due to invalid credentials with SASL mechanism {mechanism}"
    if mechanism == "PLAIN":
        expected = "Authentication failed: Invalid username or password"
    [text] = texts  # what a client gets does not tell an unknown user from a wrong password
    assert text.endswith(expected)


def test_a_wrong_password_is_answered_and_the_connection_closed(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        assert raw.handshake().error_code == ErrorCode.NONE
        response = raw.authenticate(password="wrong")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.is_closed


def test_an_unknown_mechanism_gets_those_there_are(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        response = raw.handshake("GSSAPI")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert tuple(response.mechanisms) == MECHANISMS
        assert raw.is_closed


def test_clients_without_login_get_api_versions_alone(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        versions = raw.call(ApiKey.API_VERSIONS, 2, ApiVersionsRequest())
        assert {ApiKey.SASL_HANDSHAKE, ApiKey.METADATA} < {it.api_key for it in versions.api_keys}
        raw.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert raw.is_closed


@pytest.mark.parametrize("handshakes", [0, 1])
def test_no_other_request_comes_between_the_two(node: NodeProcess, handshakes: int) -> None:
    with Raw(node.port) as raw:
        for _ in range(handshakes):
            raw.handshake()
        raw.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert raw.is_closed


def test_frames_of_clients_without_login_are_bounded(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        raw.socket.sendall((524_289).to_bytes(4, "big"))
        assert raw.is_closed


def test_bare_tokens_follow_the_first_version_of_the_handshake(node: NodeProcess) -> None:
    for password, is_right in ((PASSWORD, True), ("wrong", False)):
        with Raw(node.port) as raw:
            assert raw.handshake(version=0).error_code == ErrorCode.NONE
            token = f"\0{USER}\0{password}".encode()
            raw.socket.sendall(len(token).to_bytes(4, "big") + token)
            if is_right:
                assert raw.file.read(4) == bytes(4)
                assert len(raw.metadata().brokers) == 1
            else:
                assert raw.is_closed


def test_pipelined_requests_are_served_once_the_login_is(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        raw.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{USER}\0{PASSWORD}".encode()
        raw.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
        raw.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        raw.receive(ApiKey.SASL_HANDSHAKE, 1)
        assert raw.receive(ApiKey.SASL_AUTHENTICATE, 2).session_lifetime_ms == 0
        assert len(raw.receive(ApiKey.METADATA, 9).brokers) == 1


def test_one_login_is_enough_without_a_limit_of_the_session(node: NodeProcess) -> None:
    with Raw(node.port) as raw:
        raw.handshake()
        raw.authenticate()
        assert raw.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert raw.authenticate().error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert len(raw.metadata().brokers) == 1


def controller_port(folder: Path) -> int:
    text = (folder / "node-1" / "server.properties").read_text()
    return int(text.partition("CONTROLLER://127.0.0.1:")[2].partition("\n")[0])


@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (ApiKey.VOTE, VoteRequest(cluster_id=None, voter_id=-1, topics=())),
        (ApiKey.FETCH_SNAPSHOT, FetchSnapshotRequest(replica_id=9, topics=())),
    ],
)
def test_strangers_cannot_vote_or_fetch(
    node: NodeProcess, folder: Path, api_key: int, request_: Message
) -> None:
    """On the controllers' listener, where a user of the clients' listener is a stranger, too."""
    with Raw(controller_port(folder)) as raw:
        raw.send(api_key, APIS[api_key].last, request_)
        assert raw.is_closed
    with Raw(controller_port(folder)) as raw:
        raw.handshake()
        response = raw.authenticate()
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with Raw(controller_port(folder)) as raw:
        raw.handshake()
        assert raw.authenticate(BROKER, BROKER_PASSWORD).error_code == ErrorCode.NONE
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=2
        )
        assert raw.call(ApiKey.DESCRIBE_CLUSTER, 1, request).error_code == ErrorCode.NONE


def test_credentials_are_changed_by_the_command(
    node: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are in force for the next login, and after a restart of the node (a new process)."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in login("PLAIN").items()))
    common = ["configs", "-b", node.address, "--command-config", str(file)]
    carol = [*common, "--entity-type", "users", "--entity-name", "carol"]
    add = [*carol, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=first]"]
    assert main(add) == 0
    security = login("SCRAM-SHA-512", "first", "carol")
    with Client(node.address, timeout_s=LIMIT_S, security=security) as client:
        assert client.describe_cluster().brokers
    capsys.readouterr()
    assert main([*carol, "--describe"]) == 0
    shown = capsys.readouterr().out
    assert "SCRAM-SHA-512" in shown
    assert "iterations=8192" in shown
    assert main([*carol, "--alter", "--delete-config", "SCRAM-SHA-512"]) == 0
    with (
        pytest.raises(AuthenticationError),
        Client(node.address, timeout_s=LIMIT_S, security=security) as client,
    ):
        client.describe_cluster()
    assert main([*carol, "--alter", "--delete-config", "SCRAM-SHA-512"]) == 1
    assert "RESOURCE_NOT_FOUND" in capsys.readouterr().err


def test_sessions_end_unless_they_are_renewed(tmp_path: Path) -> None:
    """KIP-368: by the same user and mechanism, on the same connection."""
    with sasl_node(tmp_path, f"connections.max.reauth.ms={SESSION_MS}\n") as node:
        with Raw(node.port) as ends, Raw(node.port) as renewed:
            for raw in (ends, renewed):
                raw.handshake()
                assert raw.authenticate().session_lifetime_ms == SESSION_MS
            assert renewed.handshake().error_code == ErrorCode.NONE
            assert renewed.authenticate().error_code == ErrorCode.NONE
            assert renewed.handshake().error_code == ErrorCode.NONE
            other = renewed.authenticate(BROKER, BROKER_PASSWORD)
            assert other.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert renewed.is_closed
            while ends.serves:
                pass
        # Its own connections go on: they log in again.
        with Client(node.address, timeout_s=LIMIT_S, security=login("SCRAM-SHA-256")) as client:
            client.create_topic("after", partitions=1)
        expired = "expired_connections_killed_count"
        assert f'{expired}{{listener="CLIENTS",networkProcessor="0"}} 1' in metrics(node)


def test_no_password_is_written_anywhere(tmp_path: Path) -> None:
    """Neither in a log, nor on a page, in described configs, or in the metadata log."""
    with sasl_node(tmp_path) as node:
        with Client(node.address, timeout_s=LIMIT_S, security=login("SCRAM-SHA-256")) as client:
            client.create_topic("t", partitions=1)
            configs = client.describe_configs("broker", "1")
            assert any("sasl.jaas.config" in each.name for each in configs)
        with (
            pytest.raises(AuthenticationError),
            Client(node.address, timeout_s=LIMIT_S, security=login(password="guess")) as client,
        ):
            client.describe_cluster()
        page = metrics(node)
        assert 'failed_authentication_total{listener="CLIENTS",networkProcessor="0"} 1' in page
        node.stop()
        written = [repr(configs), page, node.output()]
    for path, _, names in os.walk(tmp_path):
        for name in names:
            if name != "server.properties":
                with open(os.path.join(path, name), "rb") as file:
                    written.append(file.read().decode("latin-1"))
    assert [
        secret for secret in (*SECRETS, "guess") if any(secret in each for each in written)
    ] == []
