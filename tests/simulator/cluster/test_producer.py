"""V24: a simulated producer has five requests in flight for a partition, and then stands still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog_simulator.cluster.producer import Batch, Producer
from kraftlog_simulator.run import simulate
from kraftlog_simulator.violation import Violation
from tests.simulator.cluster.test_cluster_invariants import Scene

PRODUCER_ID = 1000


class Sending:
    """An idempotent producer with batches of one value, whose requests are kept here."""

    def __init__(self, batches: int, in_flight: int = 5) -> None:
        scene = Scene(in_flight=in_flight)
        self.key = scene.key
        producer: Any = Producer(scene.world, 9)
        self.producer = producer
        producer.acks, producer.is_idempotent = -1, True
        producer._producer_id = PRODUCER_ID
        producer.leaders[self.key] = scene.leader.id, 0
        producer.send_request = self.send
        self.now = producer.read_clock()
        #: The responses to be, of the requests so far: call one to respond.
        self.sent: list[Any] = []
        values = [scene.world.next_value() for _ in range(batches)]
        producer._batches[self.key] = [Batch(self.key, [value], self.now) for value in values]
        producer.work(self.now)

    def send(self, _: int, __: int, ___: Any, ____: int, on_response: Any) -> None:
        self.sent.append(on_response)

    def respond(self, number: int, code: int = ErrorCode.NONE) -> None:
        part = SimpleNamespace(
            error_code=code,
            base_offset=-1,
            current_leader=SimpleNamespace(leader_id=-1, leader_epoch=-1),
        )
        topic = SimpleNamespace(partition_responses=[part])
        self.sent[number](SimpleNamespace(responses=[topic]), self.now)

    def pass_time(self, for_ms: int) -> None:
        self.now = self.now.replace(monotonic_ms=self.now.monotonic_ms + for_ms)
        self.producer.work(self.now)

    @property
    def waiting(self) -> list[int]:
        return [batch.sequence for batch in self.producer._batches[self.key]]


@pytest.mark.parametrize("in_flight", [1, 5])
def test_v24_a_producer_stops_while_its_requests_are_out(in_flight: int) -> None:
    sending = Sending(8, in_flight)
    assert len(sending.sent) == in_flight
    sending.pass_time(1000)
    assert len(sending.sent) == in_flight
    sending.respond(0)
    assert len(sending.sent) == in_flight + 1


def test_a_batch_is_sent_again_once_all_earlier_ones_are_done() -> None:
    sending = Sending(7)
    sending.respond(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sending.respond(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sending.pass_time(100)
    assert len(sending.sent) == 6  # the first one, and no later one before it
    sending.respond(5)
    assert len(sending.sent) == 8  # the second one again, and the sixth
    assert sending.waiting == [1, 2, 3, 4, 5, -1]


def test_a_batch_after_one_that_was_given_up_is_given_up() -> None:
    sending = Sending(2)
    sending.respond(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sending.pass_time(10_000)
    assert sending.waiting == [1]
    sending.respond(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sending.key not in sending.producer._batches


def test_a_batch_that_a_later_one_has_overtaken_is_given_up() -> None:
    """Kafka's partition takes any sequence number of a producer that it does not know."""
    sending = Sending(2)
    sending.respond(1)
    sending.respond(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sending.key not in sending.producer._batches


def test_a_batch_out_of_order_after_an_acknowledged_one_is_a_violation() -> None:
    sending = Sending(2)
    sending.respond(0)
    with pytest.raises(Violation, match="got error 45"):
        sending.respond(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_v24_producers_wait_for_their_requests_in_flight_in_a_run() -> None:
    outcome = simulate("cluster", 7)
    assert not outcome.failed, str(outcome)
    assert outcome.coverage["producer waits for its requests in flight"] > 5
