"""Logins of aiokafka."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.structs import TopicPartition

from tests.interop.logins.cases import TOPIC, main
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.interop.logins.cases import Case


#: Whoever is refused it may try again until this time is up.
REFUSED_WITHIN_S = 1


class Token(AbstractTokenProvider):  # type: ignore[misc]  # the client has no types
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


def settings(case: Case) -> dict[str, Any]:
    given: dict[str, Any] = {
        "bootstrap_servers": case.address,
        "security_protocol": case.protocol,
        "request_timeout_ms": (LIMIT_S if case.gets_in else REFUSED_WITHIN_S) * 1000,
    }
    if case.ca:
        given["ssl_context"] = ssl.create_default_context(cafile=case.ca)
        if case.certificate:
            given["ssl_context"].load_cert_chain(case.certificate, case.key)
    if case.mechanism:
        given["sasl_mechanism"] = case.mechanism
    if case.mechanism == "OAUTHBEARER":
        given["sasl_oauth_token_provider"] = Token(case.password)
    elif case.mechanism:
        given |= {"sasl_plain_username": case.user, "sasl_plain_password": case.password}
    return given


async def send_and_read(case: Case) -> None:
    producer = aiokafka.AIOKafkaProducer(**settings(case))
    try:
        await producer.start()
        await producer.send_and_wait(TOPIC, b"value", partition=0)
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(**settings(case), group_id=None)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(TOPIC, 0)])
        await consumer.seek_to_beginning()
        await consumer.getone()
    finally:
        await consumer.stop()


def attempt(case: Case) -> None:
    asyncio.run(asyncio.wait_for(send_and_read(case), LIMIT_S))


if __name__ == "__main__":
    main(attempt)
