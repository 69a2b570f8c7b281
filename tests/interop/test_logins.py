"""Each client gets in by the same logins as at a broker of Kafka, and is refused as there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.interop.cache import UnavailableError
from tests.interop.everyday.work import outcomes_in
from tests.interop.kafka_broker import ALLOWED_URLS
from tests.interop.logins.brokers import kafka_broker, keys_url, kraftlog_node
from tests.interop.logins.cases import ALL_CASES_S, IN, cases, tried, without_ports, write_cases
from tests.interop.programs import go_program, js_program
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.driver import Driver
    from tests.interop.logins.brokers import Listeners

pytestmark = [pytest.mark.interop, pytest.mark.long]

#: The programs of the clients, but for Kafka's own.
PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "librdkafka": lambda: python_program("librdkafka"),
    "kafka-python": lambda: python_program("kafka_python"),
    "aiokafka": lambda: python_program("aio"),
    "KafkaJS": lambda: js_program("kafkajs-logins"),
    "platformatic": lambda: js_program("platformatic-logins"),
    "franz-go": go_program,
}


def python_program(name: str) -> list[str]:
    return [sys.executable, "-m", f"tests.interop.logins.{name}"]


@pytest.fixture(scope="module")
def both(
    kafka_jars: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Listeners, Listeners]]:
    """The listeners of a node of kraftlog and of a broker of Kafka."""
    folder = tmp_path_factory.mktemp("logins")
    kafka = str(folder / "kafka")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", ALLOWED_URLS + keys_url(kafka))
        with kraftlog_node(str(folder / "kraftlog")) as ours, kafka_broker(kafka) as theirs:
            yield ours, theirs


#: Clients that ask for Metadata after a refused token. Kafka answers without a broker and with
#: ILLEGAL_SASL_STATE for each topic. aiokafka believes that there is no broker, and looks for one
#: until its time is up. A node closes the connection.
GO_ON_AFTER_A_REFUSED_TOKEN = ("aiokafka", "KafkaJS")


def check(client: str, ours: dict[str, str], theirs: dict[str, str], listeners: Listeners) -> None:
    """The same get in, and are told the same; libraries of TLS have words of their own."""
    for case in cases(listeners):
        for outcome in ours[case.name], theirs[case.name]:
            assert (outcome == IN) == case.gets_in, (case.name, outcome)
        is_token = case.mechanism == "OAUTHBEARER"
        if case.mechanism and not (is_token and client in GO_ON_AFTER_A_REFUSED_TOKEN):
            assert ours[case.name] == theirs[case.name], case.name


@pytest.mark.parametrize("client", PROGRAMS)
def test_clients_are_let_in_and_refused_as_by_kafka(
    client: str, both: tuple[Listeners, Listeners], tmp_path: Path
) -> None:
    try:
        program = PROGRAMS[client]()
    except UnavailableError as error:
        pytest.skip(f"{client}: {error}")
    path = os.path.join(tmp_path, "cases.json")
    ours, theirs = (tried(program, path, listeners) for listeners in both)
    check(client, ours, theirs, both[0])


def test_kafkas_clients_are_let_in_and_refused_as_by_kafka(
    jvm: Driver, both: tuple[Listeners, Listeners], tmp_path: Path
) -> None:
    path = os.path.join(tmp_path, "cases.json")
    outcomes = []
    for listeners in both:
        write_cases(path, listeners)
        shown = jvm.tool("Logins", path, str(LIMIT_S), seconds=ALL_CASES_S).ok().stdout
        outcomes.append(without_ports(outcomes_in(shown)))
    check("Java", outcomes[0], outcomes[1], both[0])
