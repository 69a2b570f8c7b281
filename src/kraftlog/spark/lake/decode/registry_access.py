"""How a schema registry is reached: its addresses, TLS and credentials, by Confluent's properties.

The driver reads them from the file of `--command-config`; tasks get the result, which has secrets:
no error shows it, and Spark's option for it has a name whose value Spark redacts.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from kraftlog.client import tls
from kraftlog.client.security import TLS_KEYS
from kraftlog.errors import ConfigError
from kraftlog.sasl.jaas import parse_jaas

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Precedes the properties of TLS, and may precede the others.
_PREFIX = "schema.registry."
_SOURCE, _USER = "basic.auth.credentials.source", "basic.auth.user.info"
_TOKEN_SOURCE, _TOKEN = "bearer.auth.credentials.source", "bearer.auth.token"
_JAAS = "sasl.jaas.config"

#: Names in the result: the header of requests, and the property that it comes from.
AUTHORIZATION, AUTHORIZATION_KEY = "authorization", "authorization.key"


def registry_access(registry: str, properties: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The value of --registry without credentials, and how to reach the registry there.

    A directory needs nothing.
    """
    if "://" not in registry:
        return registry, {}
    urls, url_user = _without_user(registry)
    given = {key: value.strip() for key, value in properties.items()}
    for key in (_SOURCE, _USER, _TOKEN_SOURCE, _TOKEN):
        if _PREFIX + key in given:
            given[key] = given[_PREFIX + key]
    access = {key: given[_PREFIX + key] for key in TLS_KEYS if _PREFIX + key in given}
    try:
        tls.check(access)
    except ConfigError as error:
        raise ConfigError(f"{_PREFIX}{error}") from None
    return ",".join(urls), access | _credentials(given, url_user)


def _without_user(registry: str) -> tuple[list[str], str]:
    """The addresses without user and password, and these as `user:password`."""
    urls, users = [], set()
    for text in registry.split(","):
        parts = urlsplit(text.strip())
        user, _, host = parts.netloc.rpartition("@")
        if parts.scheme not in {"http", "https"} or not host:
            shown = urlunsplit(parts._replace(netloc=host))
            raise ConfigError(
                f"--registry {shown}: expected a directory, or URLs with http or https, separated "
                "by commas"
            )
        users.add(unquote(user))
        urls.append(urlunsplit(parts._replace(netloc=host, query="", fragment="")).rstrip("/"))
    if len(users) > 1:
        raise ConfigError("--registry: all URLs must have the same user and password, or none")
    return urls, users.pop()


def _credentials(given: Mapping[str, str], url_user: str) -> dict[str, str]:
    source = given.get(_SOURCE, "URL").upper()
    if given.get(_TOKEN_SOURCE, "STATIC_TOKEN").upper() != "STATIC_TOKEN":
        raise ConfigError(
            f"{_TOKEN_SOURCE}={given[_TOKEN_SOURCE]}: expected STATIC_TOKEN, with {_TOKEN}"
        )
    if _TOKEN in given or _TOKEN_SOURCE in given:
        token = given.get(_TOKEN, "")
        if not (token.isascii() and token.isprintable() and token) or " " in token:
            raise ConfigError(f"{_TOKEN}: expected a token of ASCII characters without spaces")
        if source != "URL" or url_user:
            raise ConfigError(f"{_TOKEN} can't be combined with {_SOURCE} or a user in --registry")
        return {AUTHORIZATION: f"Bearer {token}", AUTHORIZATION_KEY: _TOKEN}
    if source == "URL":
        user, key = url_user, "--registry"
        if not user:
            return {}
    elif source == "USER_INFO":
        user, key = given.get(_USER, ""), _USER
    elif source == "SASL_INHERIT":
        _, options = parse_jaas(given.get(_JAAS, ""))
        user, key = f"{options.get('username', '')}:{options.get('password', '')}", _JAAS
    else:
        raise ConfigError(f"{_SOURCE}={source}: expected URL, USER_INFO or SASL_INHERIT")
    if not user.partition(":")[0]:
        raise ConfigError(f"{_SOURCE}={source} needs a user and a password in {key}")
    return {
        AUTHORIZATION: f"Basic {b64encode(user.encode()).decode()}",
        AUTHORIZATION_KEY: key,
    }
