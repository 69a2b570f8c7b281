"""The keys that sign tokens of OAUTHBEARER: a JWKS in a file, or at an endpoint.

A file is read again when it has changed, at the next login, as certificates are. An endpoint is
asked by a thread, so that it never delays the loop: at the start, at every refresh, and when a
token names a key that is not there.
"""

from __future__ import annotations

import os
import threading
import time

from kraftlog.errors import ConfigError, message_of
from kraftlog.sasl.jwt import MAX_JWKS_BYTES, read_jwks
from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.config.sasl import TokenKeys
    from kraftlog.node.authentication import TokenKeySource
    from kraftlog.sasl.jwt import Jwk

#: How long an endpoint may take.
TIMEOUT_S = 10.0
#: Tokens with unknown keys have them fetched at most this often: anyone can send such tokens.
RENEW_EVERY_NS = 10_000_000_000


def token_key_sources(config: BrokerConfig) -> dict[str, TokenKeySource]:
    """The keys of each listener with OAUTHBEARER; ConfigError if they cannot be used."""
    from kraftlog.config.endpoints import WITH_SASL
    from kraftlog.config.sasl import sasl_listener

    sources: dict[str, TokenKeySource] = {}
    for listener in config.listeners:
        if listener.protocol in WITH_SASL:
            found = sasl_listener(config, listener.name).token_keys
            if found is not None:
                _check_package(found)
                is_file = found.url.startswith("file:")
                sources[listener.name] = FileKeys(found) if is_file else EndpointKeys(found)
    return sources


def _check_package(settings: TokenKeys) -> None:
    from importlib.util import find_spec

    try:
        is_there = find_spec("cryptography") is not None
    except ValueError:
        is_there = False
    if not is_there:
        raise ConfigError(
            f"{settings.key}: tokens of OAUTHBEARER are verified by the package cryptography: pip "
            "install 'kraftlog[secure]'"
        )


class FileKeys:
    """Keys in a file; it must be readable when the node starts."""

    def __init__(self, settings: TokenKeys) -> None:
        from urllib.parse import unquote, urlsplit

        self._settings = settings
        self._path = unquote(urlsplit(settings.url).path)
        self._seen = self._state()
        self._keys = self._read()

    def current(self) -> tuple[Jwk, ...]:
        seen = self._state()
        if seen != self._seen:
            self._seen = seen
            try:
                self._keys = self._read()
            except ConfigError as error:
                log_line(f"kraftlog: the keys of tokens stay as they were: {error}")
        return self._keys

    def renew(self) -> None:
        """A changed file is noticed without it."""

    def _state(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_ino, status.st_size)

    def _read(self) -> tuple[Jwk, ...]:
        try:
            with open(self._path, "rb") as file:
                return read_jwks(file.read(MAX_JWKS_BYTES + 1))
        except (OSError, ValueError) as error:
            why = message_of(error)
        except ConfigError as error:
            why = str(error)
        raise ConfigError(f"{self._settings.key}={self._settings.url}: {why}")


class EndpointKeys:
    """Keys at an endpoint. The node starts without them, too, and refuses tokens until then."""

    def __init__(
        self, settings: TokenKeys, fetch: Callable[[], bytes] | None = None, *, starts: bool = True
    ) -> None:
        self._settings = settings
        self._fetch = fetch or _fetcher(settings)
        self._keys: tuple[Jwk, ...] = ()
        self._wanted = threading.Event()
        self._renew_from_ns = 0
        self._failures = 0
        if starts:
            threading.Thread(target=self._work, name="token keys", daemon=True).start()

    def current(self) -> tuple[Jwk, ...]:
        return self._keys

    def renew(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns >= self._renew_from_ns:
            self._renew_from_ns = now_ns + RENEW_EVERY_NS
            self._wanted.set()

    def _work(self) -> None:
        while True:
            self._wanted.clear()
            self._wanted.wait(self.fetch_once())

    def fetch_once(self) -> float:
        """Fetch the keys; return the time until the next attempt. The old ones stay if it fails."""
        settings = self._settings
        try:
            self._keys = read_jwks(self._fetch())
        except (OSError, ValueError, ConfigError) as error:
            if not self._failures:
                log_line(
                    f"kraftlog: {settings.key}={settings.url}: the keys of tokens cannot be "
                    f"fetched: {message_of(error)}; trying again"
                )
            backoff_ms = settings.retry_backoff_ms << min(self._failures, 20)
            self._failures += 1
            return max(min(backoff_ms, settings.retry_backoff_max_ms), 10) / 1000
        if self._failures:
            log_line(f"kraftlog: {settings.key}: the keys of tokens have been fetched")
        self._failures = 0
        return settings.refresh_ms / 1000


def _fetcher(settings: TokenKeys) -> Callable[[], bytes]:
    context = _context(settings)

    def fetch() -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

        class NoRedirect(HTTPRedirectHandler):
            """Keys come from this address alone: another may be of another host, or without TLS."""

            def redirect_request(self, *_: object) -> None:
                return None

        opener = build_opener(HTTPSHandler(context=context), NoRedirect())
        request = Request(settings.url, headers={"Accept": "application/json"})  # noqa: S310 - the settings allow only https
        try:
            with opener.open(request, timeout=TIMEOUT_S) as response:
                data: bytes = response.read(MAX_JWKS_BYTES + 1)
                return data
        except HTTPError as error:
            error.close()  # it holds the response
            raise OSError(str(error)) from None
        except HTTPException as error:
            raise OSError(f"its response is malformed: {type(error).__name__}") from None

    return fetch


def _context(settings: TokenKeys) -> SSLContext:
    from kraftlog.config.tls import check_tls, client_settings
    from kraftlog.tls.contexts import client_context

    tls = client_settings(settings.tls)
    check_tls(tls)
    return client_context(tls)
