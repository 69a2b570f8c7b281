"""Where OAUTHBEARER gets its tokens: a file, or an endpoint that grants client credentials."""

from __future__ import annotations

from kraftlog.errors import ConfigError, UnreachableError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_URL = "sasl.oauthbearer.token.endpoint.url"
_FILE = "file:"
#: How long an endpoint may take.
_TIMEOUT_S = 10.0


def token_source(properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    """What returns a token, by the options of the login module."""
    url = properties.get(_URL, "")
    if url.startswith(_FILE):
        return lambda: _from_file(url)
    if url.startswith(("https://", "http://")):
        return lambda: _from_endpoint(url, options)
    raise ConfigError(f"{_URL} must be set: file:///PATH or the https:// address of an endpoint")


def _from_file(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_URL}={url}: {getattr(error, 'strerror', None) or error}") from None
    if not token:
        raise ConfigError(f"{_URL}={url}: the file is empty")
    return token


def _from_endpoint(url: str, options: Mapping[str, str]) -> str:
    """The grant of client credentials (RFC 6749, 4.4). No error has the secret or the token."""
    import json
    from base64 import b64encode
    from urllib.error import HTTPError, URLError
    from urllib.parse import quote, urlencode
    from urllib.request import Request, urlopen

    missing = [name for name in ("clientId", "clientSecret") if name not in options]
    if missing:
        raise ConfigError(f"sasl.jaas.config: OAuthBearerLoginModule needs {' and '.join(missing)}")
    form = {"grant_type": "client_credentials"}
    if "scope" in options:
        form["scope"] = options["scope"]
    credentials = f"{quote(options['clientId'])}:{quote(options['clientSecret'])}"
    request = Request(  # noqa: S310 - the caller has checked that it is http or https
        url,
        urlencode(form).encode(),
        {
            "Authorization": f"Basic {b64encode(credentials.encode()).decode()}",
            "Accept": "application/json",
        },
    )
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
            token = json.load(response)["access_token"]
    except HTTPError as error:
        error.close()  # it holds the response
        raise UnreachableError(f"{url} grants no token: {error}") from None
    except (URLError, OSError) as error:
        raise UnreachableError(f"{url} grants no token: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise UnreachableError(f"{url} grants no token: its response has no access_token") from None
    return str(token)
