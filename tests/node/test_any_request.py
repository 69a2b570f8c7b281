"""The node responds to any request, at once or later, or disconnects; it never fails."""

from __future__ import annotations

from random import Random

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.node.api_table import SERVED
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_requests import batch, produce, unreadable_batch
from tests.virtual_host import CLUSTER_ID
from tests.wire.samples import Sampler

CASES = [(served.key, version) for served in SERVED.values() for version in served.versions]


class KnownNamesSampler(Sampler):
    """Random requests that often name topics, partitions and batches that the node has."""

    topic_ids: tuple[bytes, ...] = ()

    def primitive(self, kind: str, name: str = "") -> object:
        random = self.random
        if name == "cluster_id":  # a leader of another cluster would stop the node (Q31)
            return CLUSTER_ID
        if name.endswith("_epoch"):  # the largest epoch would stop the node (Q2)
            return random.randrange(-1, 100)
        if kind == "string" and name in {"name", "topic"} and random.random() < 0.7:
            return "demo"
        if kind == "uuid" and random.random() < 0.7:
            return random.choice(self.topic_ids)
        if name in {"index", "partition", "partition_index"} and random.random() < 0.7:
            return random.randrange(2)
        if kind == "batches" and random.random() < 0.7:
            builder = BatchBuilder(
                codec=random.choice((0, 0, 0, 1, 4)), producer_id=random.choice((-1, -1, 5))
            )
            for _ in range(random.randrange(1, 4)):
                builder.append(random.choice((0, 1000, 2**40)), None, random.randbytes(4))
            return builder.build()
        return super().primitive(kind, name)


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{APIS[key].name}-{version}" for key, version in CASES]
)
def test_no_request_stops_a_node(key: int, version: int) -> None:
    host = make_host(demo=2)
    for index, raw in enumerate([batch(b"x"), unreadable_batch()]):
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(raw, index=index))
    sampler = KnownNamesSampler(Random(f"{key}/{version}"))
    sampler.topic_ids = tuple(host.node.image.topics)
    response_count = 0
    listener = BROKER if APIS[key].listeners & BROKER else CONTROLLER
    for _ in range(100):
        client = FrameClient(host, listener)
        try:
            client.send(key, version, sampler.message(APIS[key].request(), version))
        except ProtocolError:
            continue
        host.turn()
        host.pass_time(10)
        response_count += len(client.take())
    assert response_count
    assert not [line for line in host.log_lines if "internal error" in line]
