"""A node whose clients log in by tokens: other people's clients, refusals, keys that change."""

from __future__ import annotations

import http.server
import os
import ssl
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.config.read_config import read_config
from kraftlog.config.safety import refuse_unsafe
from kraftlog.config.sasl import sasl_listener
from kraftlog.errors import AuthenticationError, ConfigError, ErrorCode
from kraftlog.server.token_keys import EndpointKeys, token_key_sources
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.certificates import Certificates
from tests.server.clients import TOPIC, consume, produce_all
from tests.server.sasl_node import login, metrics, sasl_node
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S
from tests.tokens import AUDIENCE, ISSUER, USER, claims, jwk, jwks, now_s, token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.node_process import NodeProcess

PREFIX = "listener.name.clients.oauthbearer"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
INVALID = '{"status":"invalid_token"}'


def settings(url: str, **changed: str) -> dict[str, str]:
    """What a node's file says of tokens; underscores of `changed` are dots, "" takes a key away."""
    given = {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{PREFIX}.sasl.jaas.config": f"{MODULE};",
        f"{PREFIX}.sasl.server.callback.handler.class": HANDLER,
        f"{PREFIX}.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{PREFIX}.sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "10",
    }
    for key, value in changed.items():
        given[f"{PREFIX}.sasl.{key.replace('_', '.')}"] = value
    return {key: value for key, value in given.items() if value}


def text_of(given: dict[str, str]) -> str:
    return "".join([f"{key}={value}\n" for key, value in given.items()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def keys(folder: Path) -> Path:
    path = folder / "jwks.json"
    path.write_bytes(jwks(jwk(), jwk("ES256")))
    return path


@pytest.fixture(scope="module")
def node(folder: Path, keys: Path) -> Iterator[NodeProcess]:
    with sasl_node(folder, text_of(settings(keys.as_uri()))) as started:
        with Client(started.address, timeout_s=LIMIT_S, security=login()) as client:
            client.create_topic(TOPIC, partitions=1)
        yield started


def own_login(folder: Path, text: str) -> dict[str, str]:
    """The properties of our client, and of Kafka's."""
    path = folder / f"token-{hash(text)}"
    path.write_text(text)
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE};",
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
    }


def send_token(raw: Raw, text: str) -> Any:
    message = f"n,,\x01auth=Bearer {text}\x01\x01".encode()
    return raw.call(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=message))


def test_our_client_logs_in_by_a_token(node: NodeProcess, tmp_path: Path) -> None:
    for algorithm in ("RS256", "PS512", "ES256"):
        security = own_login(tmp_path, token(algorithm=algorithm))
        with Client(node.address, timeout_s=LIMIT_S, security=security) as client:
            assert len(client.describe_cluster().brokers) == 1
    with (
        pytest.raises(AuthenticationError, match="invalid_token"),
        Client(node.address, timeout_s=LIMIT_S, security=own_login(tmp_path, token(index=1))) as it,
    ):
        it.describe_cluster()


def test_librdkafka_logs_in_by_a_token(node: NodeProcess) -> None:
    values = [b"one", b"two"]
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token(), now_s() + 600.0),
    }
    produce_all(node.address, values, **given)
    assert consume(node.address, 2, **given) == values


def test_librdkafka_reports_a_refused_token(node: NodeProcess) -> None:
    errors: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(index=1), now_s() + 600.0),
            "error_cb": lambda error: errors.append(error.name()),
        }
    )
    deadline = Deadline(LIMIT_S)
    while "_AUTHENTICATION" not in errors:
        assert not deadline.is_over, errors
        producer.poll(0.1)


class Provider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    def token(self) -> str:
        return token()


def test_kafka_python_logs_in_by_a_token(node: NodeProcess) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=node.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    try:
        producer.send(TOPIC, b"three", partition=0).get(LIMIT_S)
    finally:
        producer.close(LIMIT_S)


def test_a_refused_token_is_answered_before_the_connection_is_closed(node: NodeProcess) -> None:
    """RFC 7628, 3.2.2, and the same for every reason; a second token is not tried."""
    answers = set()
    for said, index in ((claims(exp=now_s() - 99, iat=0), 0), (claims(aud="x"), 0), (claims(), 1)):
        for last in ("\x01", f"n,,\x01auth=Bearer {token()}\x01\x01"):
            with Raw(node.port) as raw:
                raw.handshake("OAUTHBEARER")
                response = send_token(raw, token(said, index=index))
                assert response.error_code == ErrorCode.NONE
                request = SaslAuthenticateRequest(auth_bytes=last.encode())
                end = raw.call(ApiKey.SASL_AUTHENTICATE, 2, request)
                assert end.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                answers.add((bytes(response.auth_bytes).decode(), end.error_message))
                assert raw.is_closed
    assert answers == {(INVALID, INVALID)}


def test_each_refused_token_is_counted_once(node: NodeProcess) -> None:
    """Also if the client goes without the last word."""
    name = 'kafka_server_socket_server_metrics_failed_authentication_total{listener="CLIENTS"'

    def failed() -> float:
        lines = [line for line in metrics(node).splitlines() if line.startswith(name)]
        assert len(lines) == 1
        return float(lines[0].split()[-1])

    before = failed()
    for says_more in (False, True):
        with Raw(node.port) as raw:
            raw.handshake("OAUTHBEARER")
            send_token(raw, token(index=1))
            if says_more:
                send_token(raw, token())
    assert failed() == before + 2


@pytest.mark.parametrize("seconds", [2, -5])
def test_a_session_ends_with_its_token(node: NodeProcess, seconds: int) -> None:
    """KIP-368; a token that has expired within the clock skew does not last for ever."""
    with Raw(node.port) as raw:
        raw.handshake("OAUTHBEARER")
        response = send_token(raw, token(claims(exp=now_s() + seconds, iat=0)))
        assert response.error_code == ErrorCode.NONE
        assert 0 < response.session_lifetime_ms <= 2000
        deadline = Deadline(LIMIT_S)
        while raw.serves:
            assert not deadline.is_over
            deadline.pause(0.1)


def test_a_session_is_renewed_by_a_token_of_the_same_user(node: NodeProcess) -> None:
    for user, is_served in ((USER, True), ("bob", False)):
        with Raw(node.port) as raw:
            raw.handshake("OAUTHBEARER")
            send_token(raw, token(claims(exp=now_s() + 60)))
            raw.handshake("OAUTHBEARER")
            response = send_token(raw, token(claims(sub=user)))
            assert (response.error_code == ErrorCode.NONE) is is_served
            if is_served:
                assert response.session_lifetime_ms > 60_000
                assert raw.serves


def test_keys_of_a_changed_file_are_used_at_once(node: NodeProcess, keys: Path) -> None:
    def is_accepted() -> bool:
        with Raw(node.port) as raw:
            raw.handshake("OAUTHBEARER")
            return not send_token(raw, token(header={"kid": "new"}, index=2)).auth_bytes

    assert not is_accepted()
    old = keys.read_bytes()
    for data, expected in ((jwks(jwk(name="new", index=2)), True), (b"{", True), (old, False)):
        new = keys.with_suffix(".new")
        new.write_bytes(data)
        os.replace(new, keys)
        assert is_accepted() is expected
    assert "the keys of tokens stay as they were" in node.output()


def test_no_token_is_written_anywhere(node: NodeProcess, folder: Path) -> None:
    """Only refusals without the token, its claims, or its user, whom nobody has proved."""
    text = token(claims(sub="mallory", iss="https://evil.example"))
    with Raw(node.port) as raw:
        raw.handshake("OAUTHBEARER")
        send_token(raw, text)
    written = node.output() + metrics(node)
    for path in (folder / "node-1" / "data").rglob("*"):
        if path.is_file():
            written += path.read_bytes().decode("latin-1")
    for secret in (text, text.rpartition(".")[2], "mallory", "evil.example", "eyJ"):
        assert secret not in written


# Settings -----------------------------------------------------------------------------------------


def config_of(given: dict[str, str]) -> Any:
    base = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "log.dirs": "/tmp/unused",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": "PlainLoginModule required "
        'username="a" password="b";',
        "inter.broker.listener.name": "CLIENTS",
    }
    config, warnings = read_config(text_of(base | given), {})
    assert warnings == []
    return config


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"server_callback_handler_class": ""}, "accepts tokens that nobody has signed"),
        (
            {"server_callback_handler_class": HANDLER.replace("Validator", "UnsecuredValidator")},
            "accepts tokens that nobody has signed",
        ),
        ({"oauthbearer_jwt_validator_class": "com.example.Mine"}, "other classes cannot be loaded"),
        ({"oauthbearer_expected_audience": ""}, "expected.audience must be set"),
        ({"oauthbearer_jwks_endpoint_url": ""}, "expected file:///PATH or https"),
        ({"oauthbearer_jwks_endpoint_url": "http://a/b"}, "expected file:///PATH or https"),
        ({"jaas_config": ""}, "must be set"),
        ({"jaas_config": "PlainLoginModule required;"}, "is not the login module"),
    ],
)
def test_settings_that_would_let_strangers_in_are_refused(
    changed: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        refuse_unsafe(config_of(settings("file:///k", **changed)))


def test_audience_and_issuer_may_be_left_open_explicitly() -> None:
    given = settings(
        "https://a/b",
        oauthbearer_expected_audience="",
        oauthbearer_allow_unverified_audience="true",
        oauthbearer_clock_skew_seconds="7",
    )
    rules = sasl_listener(config_of(given), "CLIENTS").token_rules
    assert rules is not None
    assert (rules.audiences, rules.issuer, rules.skew_s) == (frozenset(), ISSUER, 7)


def test_nodes_cannot_log_in_by_tokens() -> None:
    given = {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match="nodes cannot log in by OAUTHBEARER"):
        refuse_unsafe(config_of(settings("https://a/b") | given))


def test_a_missing_file_of_keys_prevents_the_start(tmp_path: Path) -> None:
    config = config_of(settings((tmp_path / "none").as_uri()))
    with pytest.raises(ConfigError, match="No such file"):
        token_key_sources(config)


def test_a_missing_package_prevents_the_start(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"pip install 'kraftlog\[secure\]'"):
        token_key_sources(config_of(settings(keys.as_uri())))


# Endpoints ----------------------------------------------------------------------------------------


@contextmanager
def endpoint(folder: Path, answers: dict[str, tuple[int, bytes]]) -> Iterator[tuple[str, str]]:
    """A server with TLS that gives these answers by path; its address, and its authority."""
    certificates = Certificates(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[self.path]
            self.send_response(status)
            self.send_header("Location", "/good")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.file("127.0.0.1"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", certificates.file("ca")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def endpoint_keys(url: str, authority: str) -> EndpointKeys:
    options = f' ssl.truststore.location="{authority}"' if authority else ""
    given = settings(url, jaas_config=f"{MODULE}{options};")
    found = sasl_listener(config_of(given), "CLIENTS").token_keys
    assert found is not None
    return EndpointKeys(found, starts=False)


def test_keys_are_fetched_from_an_endpoint_with_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure is logged once, backs off as Kafka does, and leaves the keys as they were."""
    answers = {"/good": (200, jwks(jwk())), "/moved": (302, b""), "/x": (200, b"{}")}
    with endpoint(tmp_path, answers) as (url, authority):
        source = endpoint_keys(f"{url}/good", authority)
        assert source.current() == ()
        assert source.fetch_once() == 3600
        assert [key.id for key in source.current()] == ["RSA"]
        answers["/good"] = (500, b"")
        assert [source.fetch_once() for _ in range(3)] == [0.1, 0.2, 0.4]
        assert [source.fetch_once() for _ in range(30)][-1] == 10
        assert [key.id for key in source.current()] == ["RSA"]
        assert capsys.readouterr().err.count("cannot be fetched: HTTP Error 500") == 1
        answers["/good"] = (200, jwks(jwk(name="second")))
        assert source.fetch_once() == 3600
        assert [key.id for key in source.current()] == ["second"]
        for path, trusted in (("/moved", authority), ("/x", authority), ("/good", "")):
            strange = endpoint_keys(url + path, trusted)
            strange.fetch_once()
            assert strange.current() == ()


def test_a_node_starts_before_its_endpoint_and_learns_keys(tmp_path: Path) -> None:
    """Logins go on meanwhile; a token of an unknown key has the keys fetched."""
    answers = {"/good": (503, b"")}
    with endpoint(tmp_path, answers) as (url, authority):
        given = settings(
            f"{url}/good",
            jaas_config=f'{MODULE} ssl.truststore.location="{authority}";',
            oauthbearer_jwks_endpoint_retry_backoff_max_ms="200",
        )
        with sasl_node(tmp_path, text_of(given)) as node:

            def is_accepted(name: str, index: int) -> bool:
                with Raw(node.port) as raw:
                    raw.handshake("OAUTHBEARER")
                    text = token(header={"kid": name}, index=index)
                    return not send_token(raw, text).auth_bytes

            def await_accepted(name: str, index: int) -> None:
                deadline = Deadline(LIMIT_S)
                while not is_accepted(name, index):
                    assert not deadline.is_over
                    deadline.pause(0.05)

            assert not is_accepted("RSA", 0)
            answers["/good"] = (200, jwks(jwk()))
            await_accepted("RSA", 0)
