"""Values in Confluent's form: a zero byte, the id of the value's schema in four bytes, the value.

The schema of an id comes from a schema registry over HTTP, or from a file of a directory: `ID.avsc`
with Avro, `ID.json` with a JSON Schema.
"""

from __future__ import annotations

import json
import os
import struct
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, Request, build_opener

from kraftlog.client import tls
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ConfigError
from kraftlog.jitter import jitter
from kraftlog.spark.lake.decode.registry_access import AUTHORIZATION, AUTHORIZATION_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

    from kraftlog.spark.lake.decode.base import Decoding

#: The types of schemas that can be decoded, as the registry calls them.
AVRO, JSON = "AVRO", "JSON"
_SUFFIXES = {AVRO: "avsc", JSON: "json"}
_MAGIC = 0
_FRAME = struct.Struct(">bI")
#: How long a schema is asked for, and the time of one attempt.
_TIMEOUT_S = 30.0
_ATTEMPT_S = 10.0
#: Pauses between attempts; workers pause up to half as long, so that they do not ask all at once.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 5.0
#: HTTP's codes below 500 after which a request is repeated: time-out, and too many requests.
_RETRIED = {408, 429}
_MAX_BODY = 16 << 20


class UnusableSchemaError(ConfigError):
    """There is no schema of an id, or no columns are defined by a schema."""


def schema_id_of(value: bytes) -> tuple[int, int]:
    """The id of a value's schema, and where the value itself begins; else ValueError."""
    if len(value) < _FRAME.size:
        raise ValueError(f"it has {len(value)} bytes, fewer than 0 and the id of a schema")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic != _MAGIC:
        raise ValueError(f"it begins with byte {magic}, not with 0 and the id of a schema")
    return schema_id, _FRAME.size


def schema_text(decoding: Decoding, schema_id: int, kind: str) -> str:
    """The text of the schema with this id, which has to be of this type."""
    registry = decoding.registry
    found_kind, text = (
        _from_registry(registry, decoding.registry_access, schema_id)
        if "://" in registry
        else _from_directory(registry, schema_id)
    )
    if not found_kind:
        raise UnusableSchemaError(f"the registry has no schema {schema_id}")
    if found_kind not in _SUFFIXES:
        raise UnusableSchemaError(
            f"schema {schema_id} is of type {found_kind}: it can't be decoded"
        )
    if found_kind != kind:
        raise UnusableSchemaError(
            f"schema {schema_id} is of type {found_kind}: --decode {found_kind.lower()}-confluent "
            "decodes it"
        )
    return text


def _from_directory(directory: str, schema_id: int) -> tuple[str, str]:
    """The type and the text of a schema; empty if there is none."""
    if not os.path.isdir(directory):
        raise ConfigError(f"--registry {directory}: not a directory, and not a URL")
    for kind, suffix in _SUFFIXES.items():
        path = os.path.join(directory, f"{schema_id}.{suffix}")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return kind, file.read()
    return "", ""


def _from_registry(registry: str, access: Mapping[str, str], schema_id: int) -> tuple[str, str]:
    response = _get(registry.split(","), f"/schemas/ids/{schema_id}", access)
    if response is None:
        return "", ""
    url, body = response
    try:
        fields = json.loads(body)
        text: str = fields["schema"]
        kind: str = fields.get("schemaType", AVRO)
    except (ValueError, KeyError, TypeError, AttributeError):
        # The fault of the registry, or of a proxy before it: the values may be good.
        raise ConfigError(f"schema registry: no schema in the response of {url}") from None
    if fields.get("references"):
        raise UnusableSchemaError(
            f"schema {schema_id} refers to other schemas: it can't be decoded"
        )
    return kind, text


def _get(urls: Sequence[str], path: str, access: Mapping[str, str]) -> tuple[str, bytes] | None:
    """The URL that responds, and its response; None if it has nothing at this path.

    Each URL is tried in turn, and all again until the time is over, unless a registry refuses.
    """
    deadline = Deadline(_TIMEOUT_S)
    opener = _opener(access)
    pause_s = _FIRST_PAUSE_S
    while True:
        for url in urls:
            request = Request(url + path)  # noqa: S310 - its scheme was checked
            if AUTHORIZATION in access:  # it is not sent to where a registry redirects to
                request.add_unredirected_header("Authorization", access[AUTHORIZATION])
            try:
                with opener.open(request, timeout=_attempt_s(deadline)) as response:
                    return url + path, _read(response, deadline)
            except HTTPError as error:
                error.close()  # it holds the response
                if error.code == 404:
                    return None
                if error.code not in _RETRIED and error.code < 500:
                    raise ConfigError(_refusal(url, error, access)) from None
                problem = str(error)
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, SSLCertVerificationError):
                    raise ConfigError(
                        f"schema registry {url}: its certificate is not accepted: "
                        f"{reason.verify_message} (the authorities are those of "
                        "schema.registry.ssl.truststore.location, or else of the system)"
                    ) from None
                problem = str(reason) or type(reason).__name__
            if deadline.is_over:
                raise ConfigError(
                    f"schema registry {url}: {problem}; tried for {_TIMEOUT_S:g} seconds"
                )
        pause_ms = int(pause_s * 1000)
        pause_ms -= jitter(os.getpid(), pause_ms, below=pause_ms // 2)
        deadline.pause(pause_ms / 1000)
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def _attempt_s(deadline: Deadline) -> float:
    """The time of an attempt; also the last one, after a pause, gets a second."""
    return min(_ATTEMPT_S, max(1.0, deadline.left_s()))


def _read(response: HTTPResponse, deadline: Deadline) -> bytes:
    """The body; a registry that sends it too slowly, or too much of it, has failed."""
    parts = []
    room = _MAX_BODY
    while part := response.read1(min(room, 1 << 16)):
        parts.append(part)
        room -= len(part)
        if deadline.is_over:
            raise TimeoutError("no complete response in time")
        if not room:
            raise OSError(f"a response of more than {_MAX_BODY} bytes")
    return b"".join(parts)


def _refusal(url: str, error: HTTPError, access: Mapping[str, str]) -> str:
    text = f"schema registry {url}: {error}"
    if error.code not in {401, 403}:
        return text
    if AUTHORIZATION not in access:
        return (
            f"{text}: it needs credentials: set basic.auth.credentials.source, or "
            "bearer.auth.token, in the file of --command-config"
        )
    return f"{text}: it refuses the credentials of {access[AUTHORIZATION_KEY]}"


def _opener(access: Mapping[str, str]) -> OpenerDirector:
    """What opens URLs; with the system's authorities unless there are properties of TLS."""
    of_tls = tuple(sorted((k, v) for k, v in access.items() if k.startswith("ssl.")))
    if not of_tls:
        return build_opener()
    try:
        return build_opener(HTTPSHandler(context=tls.context_of(of_tls)))
    except ConfigError as error:
        raise ConfigError(f"schema.registry.{error}") from None
