"""Values in Confluent's form: a zero byte, the id of the value's schema in four bytes, the value.

The schema of an id comes from a schema registry over HTTP, or from a file of a directory: `ID.avsc`
with Avro, `ID.json` with a JSON Schema.
"""

from __future__ import annotations

import json
import os
import struct
from urllib.error import URLError
from urllib.request import urlopen

from kraftlog.errors import ConfigError

#: The types of schemas that can be decoded, as the registry calls them.
AVRO, JSON = "AVRO", "JSON"
_SUFFIXES = {AVRO: "avsc", JSON: "json"}
_MAGIC = 0
_FRAME = struct.Struct(">bI")
_TIMEOUT_S = 30


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


def schema_text(registry: str, schema_id: int, kind: str) -> str:
    """The text of the schema with this id, which has to be of this type."""
    found_kind, text = (
        _from_registry(registry, schema_id)
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


def _from_registry(registry: str, schema_id: int) -> tuple[str, str]:
    if not registry.startswith(("http://", "https://")):
        raise ConfigError(
            f"--registry {registry}: expected a directory, or a URL with http or https"
        )
    url = f"{registry.rstrip('/')}/schemas/ids/{schema_id}"
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310 - checked above
            fields = json.load(response)
            text: str = fields["schema"]
            kind: str = fields.get("schemaType", AVRO)
    except URLError as error:
        if getattr(error, "code", 0) == 404:
            return "", ""
        raise ConfigError(f"schema registry {registry}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        # The fault of the registry, or of a proxy before it: the values may be good.
        raise ConfigError(
            f"schema registry {registry}: no schema in the response of {url}"
        ) from None
    if fields.get("references"):
        raise UnusableSchemaError(
            f"schema {schema_id} refers to other schemas: it can't be decoded"
        )
    return kind, text
