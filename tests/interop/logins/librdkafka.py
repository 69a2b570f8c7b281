"""Logins of confluent-kafka, which is librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kraftlog.client.deadline import Deadline
from tests.interop.logins.cases import TOPIC, main
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.interop.logins.cases import Case

#: An error that it tells beside the cause.
VAGUE = KafkaError._ALL_BROKERS_DOWN


def settings(case: Case, errors: list[KafkaError]) -> dict[str, Any]:
    given = {
        "bootstrap.servers": case.address,
        "security.protocol": case.protocol,
        "error_cb": errors.append,
        "ssl.ca.location": case.ca,
        "ssl.certificate.location": case.certificate,
        "ssl.key.location": case.key,
        "sasl.mechanism": case.mechanism,
    }
    if case.mechanism == "OAUTHBEARER":
        given["oauth_cb"] = lambda _: (case.password, 1 << 40, case.user, {})
    elif case.mechanism:
        given |= {"sasl.username": case.user, "sasl.password": case.password}
    return {key: value for key, value in given.items() if value}


def attempt(case: Case) -> None:
    errors: list[KafkaError] = []
    delivered: list[Any] = []
    producer = Producer(settings(case, errors))
    producer.produce(TOPIC, b"value", on_delivery=lambda error, _: delivered.append(error))
    deadline = Deadline(LIMIT_S)
    while not delivered and not deadline.is_over:
        producer.poll(0.1)
        for error in errors:
            if error.code() != VAGUE:
                producer.purge()
                raise KafkaException(KafkaError(error.code(), cause_of(error)))
    assert delivered == [None], (delivered, errors)
    consumer = Consumer(settings(case, []) | {"group.id": "logins"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(LIMIT_S)
    consumer.close()
    assert message is not None, "no record"
    assert message.error() is None, message.error()


def cause_of(error: KafkaError) -> str:
    """The error without the time that it took."""
    return error.str().partition(" (after ")[0]


if __name__ == "__main__":
    main(attempt)
