"""Turns the values of records into columns: as text, from JSON, or from Avro."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.spark.lake.decode.base import ADD, Decoded, Decoder, Decoding, DriftError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pyarrow as pa

__all__ = [
    "CONFLUENT",
    "DECODINGS",
    "Decoded",
    "Decoder",
    "Decoding",
    "DriftError",
    "decoder_of",
    "value_columns",
]

RAW = "raw"
#: Values in Confluent's form, each after the id of its schema in a registry.
CONFLUENT = ("json-confluent", "avro-confluent")
DECODINGS = (RAW, "string", "json", "avro", *CONFLUENT)


def value_columns(decoding: Decoding) -> list[pa.Field]:
    """The columns that --schema defines for decoded values; none without --schema."""
    if decoding.kind.startswith("json") and decoding.schema:
        from kraftlog.spark.lake.decode import json_values

        return list(json_values.columns_of(decoding.schema).values())
    if decoding.kind.startswith("avro") and decoding.schema:
        from kraftlog.spark.lake.decode import avro_values

        return list(avro_values.columns_of(decoding.schema).values())
    return []


def decoder_of(attributes: Mapping[str, Any], table: pa.Schema, *, is_new: bool) -> Decoder | None:
    """The decoder for a table with these columns, or None if values are not decoded.

    `attributes` are those of a `Decoding`. A new table without --schema gets a column for every
    field of the values, whatever the rule for drift is.
    """
    decoding = Decoding(**attributes)
    if decoding.kind == RAW:
        return None
    if is_new and not decoding.schema:
        decoding.on_drift = ADD
    if decoding.kind == "string":
        from kraftlog.spark.lake.decode.text import TextDecoder

        return TextDecoder(decoding, table)
    if decoding.kind == "json":
        from kraftlog.spark.lake.decode.json_values import JsonDecoder

        return JsonDecoder(decoding, table)
    if decoding.kind == "json-confluent":
        from kraftlog.spark.lake.decode.confluent_json import ConfluentJsonDecoder

        return ConfluentJsonDecoder(decoding, table)
    from kraftlog.spark.lake.decode.avro_values import AvroDecoder

    return AvroDecoder(decoding, table)
