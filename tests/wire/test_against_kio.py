"""Compares every request and response with kio, in every version, in both directions.

kio's classes are generated from Kafka's message definitions, and its parser is independent of ours:
the bytes of a random message must pass through it unchanged.
"""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import decode, encode
from tests.wire.samples import Sampler, plain, versions_of

ROUNDS = 8


def kio_class(name: str, api: Any, version: int) -> Any:
    kind = "request" if name.endswith("Request") else "response"
    module = import_module(f"kio.schema.{api.module}.v{version}.{kind}")
    return getattr(module, name)


# From 1000 on: our own APIs, which kio lacks.
@pytest.mark.parametrize("api", [a for a in APIS.values() if a.key < 1000], ids=lambda a: a.name)
def test_encoding_and_decoding_agree_with_kio(api: Any) -> None:
    for cls in (api.request(), api.response()):
        for version in versions_of(cls):
            kio_message = kio_class(cls.__name__, api, version)
            read, write = entity_reader(kio_message), entity_writer(kio_message)
            sampler = Sampler(Random(f"{cls.__name__}{version}"), kio_ranges=True)
            for _ in range(ROUNDS):
                message = sampler.message(cls, version)
                raw = encode(message, version)
                parsed, size = read(raw, 0)
                assert size == len(raw)
                out = BytesIO()
                write(out, parsed)
                assert out.getvalue() == raw
                assert plain(decode(cls, version, raw)) == plain(message)
