"""Logins of kafka-python."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import kafka
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import TopicPartition

from tests.interop.logins.cases import TOPIC, main
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.interop.logins.cases import Case


#: Whoever is refused it tries to connect again until this time is up.
REFUSED_WITHIN_S = 1


class Token(AbstractTokenProvider):  # type: ignore[misc]  # the client has no types
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def settings(case: Case) -> dict[str, Any]:
    given: dict[str, Any] = {
        "bootstrap_servers": case.address,
        "bootstrap_timeout_ms": (LIMIT_S if case.gets_in else REFUSED_WITHIN_S) * 1000,
        "security_protocol": case.protocol,
        "ssl_cafile": case.ca,
        "ssl_certfile": case.certificate,
        "ssl_keyfile": case.key,
        "sasl_mechanism": case.mechanism,
    }
    if case.mechanism == "OAUTHBEARER":
        given["sasl_oauth_token_provider"] = Token(case.password)
    elif case.mechanism:
        given |= {"sasl_plain_username": case.user, "sasl_plain_password": case.password}
    return {key: value for key, value in given.items() if value}


def attempt(case: Case) -> None:
    with closing(kafka.KafkaProducer(**settings(case))) as producer:
        producer.send(TOPIC, b"value", partition=0).get(LIMIT_S)
    with closing(kafka.KafkaConsumer(**settings(case), group_id=None)) as consumer:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert consumer.poll(timeout_ms=LIMIT_S * 1000)


if __name__ == "__main__":
    main(attempt)
