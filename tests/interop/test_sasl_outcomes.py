"""Logins end on a node as they do on a broker of Kafka; Kafka's tools manage users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.interop.secured_kafka import secured_kafka
from tests.server.sasl_node import MECHANISMS, PASSWORD, USER, login, sasl_node
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.driver import Driver

pytestmark = pytest.mark.interop

RIGHT = f"\0{USER}\0{PASSWORD}"
#: First tokens, by mechanism.
TOKENS = [
    ("PLAIN", RIGHT),
    ("PLAIN", f"{USER}{RIGHT}"),
    ("PLAIN", f"root{RIGHT}"),
    ("PLAIN", f"\0{USER}\0wrong"),
    ("PLAIN", "\0nobody\0wrong"),
    ("PLAIN", f"\0\0{PASSWORD}"),
    ("PLAIN", f"\0{USER}\0"),
    ("PLAIN", f"{RIGHT}\0"),
    ("PLAIN", ""),
    ("SCRAM-SHA-256", ""),
    ("SCRAM-SHA-256", f"y,,n={USER},r=abc"),
    ("SCRAM-SHA-256", f"n,a=root,n={USER},r=abc"),
    ("SCRAM-SHA-512", "n,,n=us=er,r=abc"),
]


def _token(raw: Raw, mechanism: str, token: str) -> list[Any]:
    raw.handshake(mechanism)
    response = raw.call(
        ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token.encode())
    )
    is_refused = bool(response.error_code)
    return [response.error_code, response.error_message, is_refused and raw.is_closed]


def _before_login(raw: Raw) -> list[Any]:
    raw.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    return [raw.is_closed]


def _versions_first(raw: Raw) -> list[Any]:
    keys = raw.call(ApiKey.API_VERSIONS, 2, ApiVersionsRequest()).api_keys
    return [
        [(it.min_version, it.max_version) for it in keys if it.api_key == key]
        for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    ]


def _unknown_mechanism(raw: Raw) -> list[Any]:
    return [raw.handshake("NONE").error_code, raw.is_closed]


def _bare_token(raw: Raw) -> list[Any]:
    raw.handshake(version=0)
    raw.socket.sendall(len(RIGHT).to_bytes(4, "big") + RIGHT.encode())
    return [raw.file.read(4), len(raw.metadata().brokers)]


def _authentication_without_a_handshake(raw: Raw) -> list[Any]:
    raw.handshake()
    raw.authenticate()
    response = raw.authenticate()
    return [response.error_code, response.error_message]


def _versions_in_the_midst_of_a_login(raw: Raw) -> list[Any]:
    raw.handshake()
    response = raw.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    return [response.error_code, raw.is_closed]


SCRIPTS: list[Callable[[Raw], list[Any]]] = [
    _before_login,
    _versions_first,
    _unknown_mechanism,
    _bare_token,
    _authentication_without_a_handshake,
    _versions_in_the_midst_of_a_login,
]


def _outcomes(port: int) -> dict[str, list[Any]]:
    found = {}
    for script in SCRIPTS:
        with Raw(port) as raw:
            found[script.__name__] = script(raw)
    for mechanism, token in TOKENS:
        with Raw(port) as raw:
            found[f"{mechanism} {token!r}"] = _token(raw, mechanism, token)
    return found


def test_logins_end_as_on_a_broker_of_kafka(kafka_jars: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    with sasl_node(ours, "connections.max.reauth.ms=3000\n") as node:
        outcomes = _outcomes(node.port)
    with secured_kafka(str(theirs)) as broker:
        assert outcomes == _outcomes(broker.ports["open"])


def test_kafkas_tool_manages_the_users_of_a_node(jvm: Driver, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in login("PLAIN").items()))
    with sasl_node(tmp_path) as node:
        tool = ["--bootstrap-server", node.address, "--command-config", str(file)]
        carol = [*tool, "--entity-type", "users", "--entity-name", "carol"]

        def configs(*words: str) -> str:
            return jvm.tool("org.apache.kafka.tools.ConfigCommand", *carol, *words).ok().stdout

        for mechanism in MECHANISMS[1:]:
            configs("--alter", "--add-config", f"{mechanism}=[iterations=8192,password=first]")
            security = login(mechanism, "first", "carol")
            with Client(node.address, timeout_s=LIMIT_S, security=security) as client:
                assert client.describe_cluster().brokers
        assert "SCRAM-SHA-256=iterations=8192" in configs("--describe")
        configs("--alter", "--delete-config", "SCRAM-SHA-256")
        assert "SCRAM-SHA-256" not in configs("--describe")
