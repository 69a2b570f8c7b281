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

from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode, encode
from tests.wire.samples import Sampler, plain

ROUNDS = 8
#: The first version of Kafka 4.4 that kio lacks, by API.
NOT_IN_KIO = {
    ApiKey.API_VERSIONS: 5,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.TXN_OFFSET_COMMIT: 6,
    ApiKey.UNREGISTER_CONTROLLER: 0,
}
#: APIs from 1000 on are our own.
APIS_OF_KAFKA = [api for api in APIS.values() if api.key < 1000]


def kio_versions(api: Any) -> range:
    return range(api.first, NOT_IN_KIO.get(api.key, api.last + 1))


def kio_class(name: str, api: Any, version: int) -> Any:
    kind = "request" if name.endswith("Request") else "response"
    module = import_module(f"kio.schema.{api.module}.v{version}.{kind}")
    return getattr(module, name)


@pytest.mark.parametrize("api", APIS_OF_KAFKA, ids=lambda api: api.name)
def test_encoding_and_decoding_agree_with_kio(api: Any) -> None:
    for cls in (api.request(), api.response()):
        for version in kio_versions(api):
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
