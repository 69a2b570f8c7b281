"""A schema registry that needs credentials or TLS, that is slow, or of which one part fails."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
import trustme
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.decode import registry
from kraftlog.spark.lake.decode.base import Decoding
from kraftlog.spark.lake.decode.registry import JSON, schema_text
from kraftlog.spark.lake.decode.registry_access import registry_access
from tests.spark.archives import archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from kraftlog import Client

SECRET = "s3:cret"
BASIC = f"Basic {base64.b64encode(f'al:{SECRET}'.encode()).decode()}"
USER_INFO = {
    "basic.auth.credentials.source": "USER_INFO",
    "basic.auth.user.info": f"al:{SECRET}",
}
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="al" password="{SECRET}";'
)
TOKEN = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": SECRET}
SCHEMA = json.dumps({"schemaType": "JSON", "schema": "{}"}).encode()


class Registry(ThreadingHTTPServer):
    """Responds with `codes` in turn, and from the last on with this one; notes what it was sent."""

    def __init__(self, *codes: int, authorization: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.codes = list(codes or (200,))
        self.authorization = authorization
        self.received: list[str | None] = []
        self.location = ""
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        server = self.server
        given = self.headers["Authorization"]
        server.received.append(given)
        code = server.codes.pop(0) if len(server.codes) > 1 else server.codes[0]
        if server.authorization and given != server.authorization:
            code = 401
        self.send_response(code)
        if server.location:
            self.send_header("Location", server.location + self.path)
        self.end_headers()
        if code == 200:
            self.wfile.write(SCHEMA)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving(server: Registry) -> Iterator[Registry]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FIRST_PAUSE_S", 0.001)


def schema_of(urls: str, properties: dict[str, str] | None = None) -> str:
    found, access = registry_access(urls, properties or {})
    return schema_text(Decoding("json-confluent", "", found, "fail", access), 1, JSON)


def with_user(url: str) -> str:
    return url.replace("//", "//al:s3%3Acret@")


@pytest.mark.parametrize(
    ("has_user", "properties", "authorization"),
    [
        (True, {}, BASIC),
        (True, {"basic.auth.credentials.source": "url"}, BASIC),
        (False, USER_INFO, BASIC),
        (False, {f"schema.registry.{key}": value for key, value in USER_INFO.items()}, BASIC),
        (
            False,
            {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": JAAS},
            BASIC,
        ),
        (False, TOKEN, f"Bearer {SECRET}"),
    ],
    ids=["URL", "URL by name", "USER_INFO", "prefix", "SASL_INHERIT", "token"],
)
def test_credentials_are_sent(
    has_user: bool, properties: dict[str, str], authorization: str
) -> None:
    with serving(Registry(authorization=authorization)) as server:
        url = with_user(server.url) if has_user else server.url
        assert schema_of(url, properties) == "{}"


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize(
    ("properties", "advice"),
    [
        (USER_INFO, "it refuses the credentials of basic.auth.user.info"),
        (TOKEN, "it refuses the credentials of bearer.auth.token"),
        ({}, "it needs credentials: set basic.auth.credentials.source, or bearer.auth.token"),
    ],
)
def test_a_refusal_names_the_property_and_no_secret(
    code: int, properties: dict[str, str], advice: str
) -> None:
    """It is not repeated, as some registries lock a user out."""
    with serving(Registry(code)) as server, pytest.raises(ConfigError) as raised:
        schema_of(server.url, properties)
    text = str(raised.value)
    assert f"schema registry {server.url}: HTTP Error {code}" in text
    assert advice in text
    assert SECRET not in text
    assert len(server.received) == 1


def test_a_refused_user_of_the_url_is_not_shown() -> None:
    with serving(Registry(401)) as server, pytest.raises(ConfigError) as raised:
        schema_of(with_user(server.url))
    assert "it refuses the credentials of --registry" in str(raised.value)
    assert "s3" not in str(raised.value)


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_registry_that_is_overloaded_is_asked_again(code: int) -> None:
    with serving(Registry(code, code, 200)) as server:
        assert schema_of(server.url) == "{}"
        assert len(server.received) == 3


def test_another_url_is_asked_if_one_fails() -> None:
    with Registry() as server:
        closed = server.url
    with serving(Registry(500)) as failing, serving(Registry()) as sound:
        assert schema_of(f"{closed}, {failing.url},{sound.url}/") == "{}"
        assert (len(failing.received), len(sound.received)) == (1, 1)


def test_a_schema_that_one_registry_does_not_have_is_unknown() -> None:
    with (
        serving(Registry(404)) as server,
        pytest.raises(ConfigError, match="the registry has no schema 1"),
    ):
        schema_of(server.url)


def test_the_time_of_all_attempts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TIMEOUT_S", 0.05)
    with (
        serving(Registry(503)) as server,
        pytest.raises(ConfigError, match=r"HTTP Error 503: .*; tried for 0.05 seconds"),
    ):
        schema_of(server.url)


def test_credentials_do_not_follow_a_redirection() -> None:
    """It may lead to another host."""
    with serving(Registry(302)) as server, serving(Registry()) as other:
        server.location = other.url
        assert schema_of(server.url, USER_INFO) == "{}"
        assert (server.received, other.received) == ([BASIC], [None])


def test_tls_takes_authorities_and_a_certificate_of_the_client(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("client")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    properties = {
        "schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem"),
        "schema.registry.ssl.keystore.location": str(tmp_path / "client.pem"),
    }
    server = Registry()
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.scheme = "https"
    with serving(server):
        assert schema_of(server.url, properties) == "{}"
        with pytest.raises(ConfigError, match=r"certificate is not accepted: .*ssl\.truststore"):
            schema_of(server.url)


@pytest.mark.parametrize(
    ("urls", "properties", "message"),
    [
        ("ftp://al:s3cret@host", {}, "--registry ftp://host: expected a directory, or URLs"),
        ("http://a,b", {}, "--registry b: expected a directory, or URLs"),
        ("http://al:s3cret@a,http://b", {}, "all URLs must have the same user"),
        ("http://a", {"basic.auth.credentials.source": "FILE"}, "expected URL, USER_INFO or SASL"),
        (
            "http://a",
            {"basic.auth.credentials.source": "USER_INFO"},
            "USER_INFO needs a user and a password in basic.auth.user.info",
        ),
        ("http://a", {"basic.auth.credentials.source": "SASL_INHERIT"}, "sasl.jaas.config"),
        ("http://a", {"bearer.auth.credentials.source": "OAUTHBEARER"}, "expected STATIC_TOKEN"),
        ("http://a", {"bearer.auth.token": "s3cret\n2"}, "bearer.auth.token: expected a token of"),
        ("http://a", TOKEN | USER_INFO, "bearer.auth.token can't be combined with"),
        (
            "https://a",
            {"schema.registry.ssl.truststore.type": "BCFKS"},
            "schema.registry.ssl.truststore.type=BCFKS: expected PEM or PKCS12",
        ),
    ],
)
def test_wrong_properties_are_named_before_anything_is_read(
    urls: str, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        registry_access(urls, properties)
    assert "s3" not in str(raised.value)


def test_a_missing_file_of_authorities_is_named() -> None:
    properties = {"schema.registry.ssl.truststore.location": "/none.pem"}
    with pytest.raises(ConfigError, match=r"^schema.registry.ssl.truststore.location=/none.pem: "):
        schema_of("https://127.0.0.1:1", properties)


def test_an_archive_leaves_no_secret_behind(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither in Spark's plan, nor in the checkpoint, the table or the output."""
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    with our_client.producer() as producer:
        producer.send(topic, b"\0\0\0\0\1{}", partition=0)
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in USER_INFO.items()))
    plans = []
    foreach_batch = DataStreamWriter.foreachBatch

    def noted(writer: DataStreamWriter, action: Any) -> DataStreamWriter:
        plans.append(writer._df._jdf.queryExecution().toString())
        plans.append(repr(writer._df))
        return foreach_batch(writer, action)

    monkeypatch.setattr(DataStreamWriter, "foreachBatch", noted)
    lake = tmp_path / "lake"
    with serving(Registry(authorization=BASIC)) as server:
        options = ["--decode", "json-confluent", "--registry", server.url, "--on-drift", "add"]
        options += ["--command-config", str(config), "--verbose"]
        assert archive(our_node, lake, topic, *options) == 0
        assert server.received == [BASIC]
    written = [path.read_bytes().decode("latin-1") for path in lake.rglob("*") if path.is_file()]
    assert len(written) > 5
    output = capfd.readouterr()
    secrets = (SECRET, BASIC.removeprefix("Basic "))
    for text in (*plans, output.out, output.err, *written):
        assert not any(secret in text for secret in secrets)


def test_secrets_are_not_in_the_text_of_a_decoding() -> None:
    registry_url, access = registry_access("http://a", USER_INFO)
    assert BASIC not in repr(Decoding("json-confluent", "", registry_url, "fail", access))
