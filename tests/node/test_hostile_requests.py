"""Hostile requests: extreme numbers, huge counts, endless names, repeated items, missing fields.

The node responds, at once or later, or it disconnects.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_any_request import CASES, KnownNamesSampler
from tests.node.test_requests import batch, produce
from tests.wire.samples import RANGES

if TYPE_CHECKING:
    from kraftlog.wire.schema import Field
    from kraftlog.wire.versioned_schema import VersionedSchema

#: Longer than a string with a 16-bit length; only flexible versions can encode it.
LONG = 70_000
#: The number of items in an array of the kind "many".
MANY = 300


class HostileSampler(KnownNamesSampler):
    """Every request has one kind of hostile value in all of its fields."""

    KINDS = ("lowest", "highest", "negative", "long", "many", "twice", "null", "empty", "odd")
    kind = ""
    flexible = False

    def value(self, field: Field, schema: VersionedSchema) -> Any:
        self.flexible = schema.flexible
        if self.kind == "null" and field.nullable_in(schema.version):
            return None
        if field.is_array:
            if self.kind == "empty":
                return ()
            if self.kind == "many":
                # Not at every level: such a request would be too large to be accepted.
                count = MANY if field.struct is None or not _has_arrays(field) else 2
                return tuple([self.single(field, schema) for _ in range(count)])
            if self.kind == "twice":
                item = self.single(field, schema)
                return (item, item, self.single(field, schema), item)
        return super().value(field, schema)

    def primitive(self, kind: str, name: str = "") -> object:
        if kind == "string" and name != "cluster_id":
            if self.kind == "long":
                return "x" * (LONG if self.flexible else 2**15 - 1)
            if self.kind == "empty":
                return ""
            if self.kind == "odd":
                return self.random.choice((".", "..", "a/b", "\0", "a\nb", "../../x", "\U0001f600"))
        if kind in RANGES and not name.endswith("_epoch"):
            low, high = RANGES[kind]
            if self.kind == "lowest":
                return low
            if self.kind == "highest":
                return high
            if self.kind == "negative":
                return self.random.choice((-1, -2, -3)) if low else low
        if kind in {"bytes", "batches"} and self.kind == "long":
            return bytes(LONG)
        return super().primitive(kind, name)


def _has_arrays(field: Field) -> bool:
    assert field.struct is not None
    return any(inner.is_array for inner in field.struct._schema)


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{APIS[key].name}-{version}" for key, version in CASES]
)
def test_hostile_values_do_not_stop_a_node(key: int, version: int) -> None:
    host = make_host(demo=2)
    topic_ids = tuple(host.node.image.topics)
    listener = BROKER if APIS[key].listeners & BROKER else CONTROLLER
    for kind in HostileSampler.KINDS:
        for number in range(2):
            sampler = HostileSampler(Random(f"{key}/{version}/{kind}/{number}"))
            sampler.kind = kind
            sampler.topic_ids = topic_ids
            request = sampler.message(APIS[key].request(), version)
            client = FrameClient(host, listener)
            frame = client.overlong_frame(key, version, request)
            try:
                host.send(client.connection, frame)
            except ProtocolError:
                continue
            host.turn()
            host.pass_time(10)
    host.settle()
    response = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"still here")))
    assert response is not None, "other clients are served"
    assert not [line for line in host.log_lines if "internal error" in line]
