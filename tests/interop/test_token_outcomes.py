"""Tokens of OAUTHBEARER end as on a broker of Kafka with the same keys; Kafka's own client."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.cli import main
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.interop.kafka_broker import ALLOWED_URLS, start_kafka
from tests.interop.kafka_jars import kafka_libs
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S
from tests.tokens import ALGORITHMS, AUDIENCE, ISSUER, claims, jwk, jwks, now_s, token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.long]

OAUTH = "org.apache.kafka.common.security.oauthbearer"
PROPERTIES = f"""\
process.roles=broker,controller
node.id=1
listeners=OPEN://127.0.0.1:{{open}},CLIENTS://127.0.0.1:{{clients}},CONTROLLER://127.0.0.1:{{controller}}
listener.security.protocol.map=OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=OPEN
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{{controller}}
log.dirs={{folder}}/data
sasl.enabled.mechanisms=OAUTHBEARER
listener.name.clients.oauthbearer.sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;
listener.name.clients.oauthbearer.sasl.server.callback.handler.class=\
{OAUTH}.OAuthBearerValidatorCallbackHandler
listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={{url}}
listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience={AUDIENCE},other
listener.name.clients.oauthbearer.sasl.oauthbearer.expected.issuer={ISSUER}
"""
CLIENT = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;
sasl.login.callback.handler.class={OAUTH}.OAuthBearerLoginCallbackHandler
sasl.oauthbearer.token.endpoint.url={{url}}
"""


def messages() -> dict[str, str]:
    """First messages of clients, by what is special about them."""
    now = now_s()
    changed: dict[str, dict[str, Any]] = {
        "expired": {"exp": now - 90, "iat": now - 900},
        "ends before it is issued": {"exp": now - 1},
        "ends before it begins": {"exp": now + 5, "nbf": now + 20},
        "without exp": {"exp": None},
        "without iat": {"iat": None},
        "from the future": {"iat": now + 900, "exp": now + 1800},
        "not valid yet": {"nbf": now + 900, "exp": now + 1800},
        "valid within the skew": {"nbf": now + 5},
        "another issuer": {"iss": "https://other.example"},
        "another audience": {"aud": "stranger"},
        "several audiences": {"aud": ["stranger", "other"]},
        "without audience": {"aud": None},
        "without subject": {"sub": None},
        "blank subject": {"sub": " "},
        "subject is a number": {"sub": 5},
        "scopes": {"scope": ["a", "b"]},
        "scopes twice": {"scope": ["a", "a"]},
        "exp is a text": {"exp": "tomorrow"},
    }
    texts = {name: token(claims(**each)) for name, each in changed.items()}
    texts |= {algorithm: token(algorithm=algorithm) for algorithm in ALGORITHMS}
    texts["another key"] = token(index=1)
    texts["unknown kid"] = token(header={"kid": "unknown"})
    texts["kid of another type"] = token(header={"kid": "ES256"})
    texts["critical"] = token(header={"crit": ["x"], "x": 1})
    texts["none"] = f"{token(header={'alg': 'none'}).rpartition('.')[0]}.AA"
    texts["HMAC"] = token(header={"alg": "HS256"})
    texts["two parts"] = "a.b"
    bearer = {name: f"n,,\x01auth=Bearer {text}\x01\x01" for name, text in texts.items()}
    good = token()
    return bearer | {
        "own authorization id": f"n,a=alice,\x01auth=Bearer {good}\x01\x01",
        "extensions": f"n,,\x01auth=bearer {good}\x01trace=1 2\x01\x01",
        "no token": "n,,\x01host=a\x01\x01",
        "channel binding": f"y,,\x01auth=Bearer {good}\x01\x01",
        "empty": "",
    }


def outcome(port: int, message: str) -> list[Any]:
    with Raw(port) as raw:
        raw.handshake("OAUTHBEARER")
        request = SaslAuthenticateRequest(auth_bytes=message.encode())
        first = raw.call(ApiKey.SASL_AUTHENTICATE, 2, request)
        seen = [first.error_code, first.error_message, bytes(first.auth_bytes)]
        if first.error_code or not first.auth_bytes:
            return [*seen, round(first.session_lifetime_ms / 100_000), bool(first.error_code)]
        request = SaslAuthenticateRequest(auth_bytes=b"\x01")
        last = raw.call(ApiKey.SASL_AUTHENTICATE, 2, request)
        return [*seen, last.error_code, last.error_message, raw.is_closed]


def write_node(folder: Path, url: str) -> tuple[str, int]:
    """Formatted, and with its properties; their path, and the port for clients."""
    folder.mkdir()
    opened, clients, controller = free_ports(3)
    path = folder / "server.properties"
    path.write_text(
        PROPERTIES.format(
            open=opened, clients=clients, controller=controller, folder=folder, url=url
        )
    )
    assert main(["format", "-c", str(path), "--standalone"]) == 0
    return str(path), clients


@contextmanager
def node(folder: Path, url: str) -> Iterator[int]:
    path, port = write_node(folder, url)
    started = NodeProcess(None, path, errors=str(folder / "errors.txt"), topics={})
    try:
        yield port
    finally:
        started.kill_if_running()


def test_tokens_end_as_on_a_broker_of_kafka(
    kafka_jars: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same keys, tokens and settings: the same errors, answers and lengths of sessions."""
    keys = tmp_path / "jwks.json"
    keys.write_bytes(jwks(*[jwk(kind) for kind in ("RSA", "ES256", "ES384", "ES512")]))
    sent = messages()
    with node(tmp_path / "ours", keys.as_uri()) as port:
        ours = {name: outcome(port, message) for name, message in sent.items()}
    path, port = write_node(tmp_path / "theirs", keys.as_uri())
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", ALLOWED_URLS + keys.as_uri())
    with start_kafka(path, str(tmp_path / "theirs")):
        theirs = {name: outcome(port, message) for name, message in sent.items()}
    assert {name: (ours[name], theirs[name]) for name in sent if ours[name] != theirs[name]} == {}


def test_kafkas_own_client_logs_in_by_a_token(kafka_jars: str, tmp_path: Path) -> None:
    keys, file = tmp_path / "jwks.json", tmp_path / "client.properties"
    keys.write_bytes(jwks(jwk()))
    with node(tmp_path / "ours", keys.as_uri()) as port:
        for index, is_accepted in ((0, True), (1, False)):
            shown = tmp_path / f"token-{index}"
            shown.write_text(token(index=index))
            file.write_text(CLIENT.format(url=shown.as_uri()))
            command = [
                "java",
                ALLOWED_URLS + shown.as_uri(),
                "-cp",
                os.path.join(kafka_libs(), "*"),
            ]
            command += ["org.apache.kafka.tools.TopicCommand", "--list", "--command-config"]
            command += [str(file), "--bootstrap-server", f"127.0.0.1:{port}"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            assert (done.returncode == 0) is is_accepted, done.stderr
            assert ("invalid_token" in done.stdout + done.stderr) is not is_accepted
