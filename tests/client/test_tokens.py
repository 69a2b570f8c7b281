"""Where tokens of OAUTHBEARER come from, and what is said if none comes."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.tokens import token_source
from kraftlog.errors import ConfigError, KraftlogError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {"clientId": "me:1", "clientSecret": "hidden&secret"}


class Endpoint(BaseHTTPRequestHandler):
    """Grants tokens, and keeps the last request."""

    answer = b""
    status = 200
    authorization, form = "", ""

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        Endpoint.authorization = self.headers["Authorization"]
        Endpoint.form = self.rfile.read(size).decode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def endpoint(answer: bytes, status: int = 200) -> Iterator[str]:
    Endpoint.answer, Endpoint.status = answer, status
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            thread.join()


def test_an_endpoint_grants_client_credentials() -> None:
    """RFC 6749: name and secret are form-encoded, then joined, then in base 64 (2.3.1)."""
    with endpoint(json.dumps({"access_token": "t0ken"}).encode()) as url:
        assert token_source({URL: url}, {**CLIENT, "scope": "kafka"})() == "t0ken"
    assert Endpoint.authorization == f"Basic {b64encode(b'me%3A1:hidden%26secret').decode()}"
    assert Endpoint.form == "grant_type=client_credentials&scope=kafka"


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        (b"{}", 200, "its response has no access_token"),
        (b"no JSON", 200, "its response has no access_token"),
        (b"[]", 200, "its response has no access_token"),
        (b"{}", 401, "401"),
    ],
)
def test_an_endpoint_without_a_token_is_an_error_without_secrets(
    answer: bytes, status: int, why: str
) -> None:
    with endpoint(answer, status) as url, pytest.raises(UnreachableError, match=why) as error:
        token_source({URL: url}, CLIENT)()
    assert "hidden" not in str(error.value)


def test_a_file_has_the_token(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("t0ken\n", encoding="ascii")
    assert token_source({URL: f"file://{tmp_path}/a%20token"}, {})() == "t0ken"


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("", {}, "must be set"),
        ("ftp://host/token", {}, "must be set"),
        ("file:///no/such/file", {}, "No such file"),
        ("https://host/token", {"clientId": "me"}, "OAuthBearerLoginModule needs clientSecret"),
    ],
)
def test_wrong_settings_are_named(url: str, options: dict[str, str], why: str) -> None:
    with pytest.raises(KraftlogError, match=why) as error:
        token_source({URL: url}, options)()
    assert isinstance(error.value, ConfigError)
