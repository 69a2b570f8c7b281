"""Our client and commands against a broker of Kafka with TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from kraftlog.errors import AuthenticationError, ClientError, ConfigError
from tests.interop.secured_kafka import MECHANISMS, PASSWORD, SecuredKafka, secured_kafka
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def broker(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(str(tmp_path_factory.mktemp("secured"))) as started:
        yield started


def connect(broker: SecuredKafka, listener: str, security: Mapping[str, str]) -> Client:
    return Client(broker.address(listener), timeout_s=LIMIT_S, security=security)


def write_and_read(client: Client, topic: str, count: int = 500) -> None:
    """Large enough that records of several partitions arrive in one TLS record, and in many."""
    client.create_topic(topic, partitions=3)
    values = [f"{n}".encode() * 200 for n in range(count)]
    with client.producer() as producer:
        for value in values:
            producer.send(topic, value)
    with client.consume(topic, start="beginning", until_end=True) as records:
        assert sorted(record.value or b"" for record in records) == sorted(values)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in_writes_and_reads(broker: SecuredKafka, mechanism: str) -> None:
    with connect(broker, "login", broker.login(mechanism)) as client:
        write_and_read(client, f"written-by-{mechanism.lower()}")


def test_a_client_logs_in_without_tls(broker: SecuredKafka) -> None:
    security = {**broker.login("SCRAM-SHA-512"), "security.protocol": "SASL_PLAINTEXT"}
    with connect(broker, "open", security) as client:
        write_and_read(client, "without-tls")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_shows_its_certificate(broker: SecuredKafka, version: str) -> None:
    with connect(broker, "tls", broker.tls(**{"ssl.enabled.protocols": version})) as client:
        write_and_read(client, f"by-{version}")


def test_certificates_may_stand_in_the_properties(broker: SecuredKafka) -> None:
    """In one line, as users write them."""
    with open(broker.file("client.pem"), encoding="ascii") as file:
        key, end, chain = file.read().partition("-----END PRIVATE KEY-----\n")
    with open(broker.file("ca.pem"), encoding="ascii") as file:
        authority = file.read().replace("\n", "\\n")
    security = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key + end,
        "ssl.keystore.certificate.chain": chain,
    }
    with connect(broker, "tls", security) as client:
        assert client.describe_cluster().brokers


def test_a_login_is_renewed_before_the_broker_ends_it(broker: SecuredKafka) -> None:
    """KIP-368: the broker closes a connection that has been used for 3 s after its login."""
    with connect(broker, "login", broker.login("PLAIN")) as client:
        client.create_topic("renewed", partitions=1)
        sent, deadline = 0, Deadline(LIMIT_S)
        first = client.cluster.connection(1, deadline)
        with client.producer() as producer:
            while client.cluster.connection(1, deadline) is first:
                producer.send("renewed", b"x")
                producer.flush()
                sent += 1
                assert not deadline.is_over
            producer.send("renewed", b"x")
        with client.consume("renewed", start="beginning", until_end=True) as records:
            assert len(list(records)) == sent + 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once(broker: SecuredKafka, mechanism: str) -> None:
    with (
        connect(broker, "login", broker.login(mechanism, "wrong")) as client,
        pytest.raises(AuthenticationError, match=r"refuses the login: ") as error,
    ):
        client.topics()
    assert "wrong" not in str(error.value)


def test_a_refused_token_is_reported(broker: SecuredKafka, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("no.token.", encoding="ascii")
    url = {"sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"}
    with (
        connect(broker, "login", {**broker.login("OAUTHBEARER"), **url}) as client,
        pytest.raises(AuthenticationError, match="refuses the login: "),
    ):
        client.topics()


def test_what_is_not_trusted_or_not_tls_is_reported(broker: SecuredKafka) -> None:
    login = broker.login("PLAIN")
    other = {**login, "ssl.truststore.location": broker.file("other-ca.pem")}
    missing = {**login, "ssl.truststore.location": broker.file("no.pem")}
    no_certificate = {k: v for k, v in broker.tls().items() if "keystore" not in k}
    cases: tuple[tuple[str, Mapping[str, str], type[Exception], str], ...] = (
        ("login", other, AuthenticationError, "its certificate is not accepted: "),
        ("plain", login, AuthenticationError, "is this a listener with TLS"),
        ("login", missing, ConfigError, "no.pem: No such file"),
        ("tls", no_certificate, ClientError, "certificate required|bad certificate"),
        ("login", {}, ClientError, "a listener with TLS needs security.protocol"),
    )
    for listener, security, kind, message in cases:
        client = Client(broker.address(listener), timeout_s=LIMIT_S, security=security)
        with client, pytest.raises(kind, match=message):
            client.topics()


def test_the_host_is_compared_with_the_certificate_unless_that_is_off(broker: SecuredKafka) -> None:
    """The certificate is for 127.0.0.1, and the first connection is to localhost."""
    servers = f"localhost:{broker.ports['login']}"
    login = broker.login("PLAIN")
    with (
        Client(servers, timeout_s=LIMIT_S, security=login) as client,
        pytest.raises(AuthenticationError, match="localhost"),
    ):
        client.topics()
    unchecked = {**login, "ssl.endpoint.identification.algorithm": ""}
    with Client(servers, timeout_s=LIMIT_S, security=unchecked) as client:
        assert client.describe_cluster().brokers


def test_an_unknown_mechanism_names_those_of_the_broker(broker: SecuredKafka) -> None:
    """A listener without SASL closes the connection; one with other mechanisms lists them."""
    with connect(broker, "login", broker.login("PLAIN")) as client:
        assert client.cluster.security is not None
        client.cluster.security.mechanism = "OTHER"
        with pytest.raises(AuthenticationError, match=r"does not accept .*OTHER; it has .*PLAIN"):
            client.topics()


def test_commands_take_the_properties_from_a_file(
    broker: SecuredKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    lines = [f"{key}={value}" for key, value in broker.login("SCRAM-SHA-256").items()]
    config.write_text("\n".join(lines), encoding="utf-8")
    server = ["-b", broker.address("login"), "--command-config", str(config)]
    assert main(["topics", *server, "--create", "--topic", "by-command"]) == 0
    assert main(["topics", *server, "--list"]) == 0
    assert "by-command" in capsys.readouterr().out.split()
    config.write_text("\n".join(lines).replace(PASSWORD, "wrong"), encoding="utf-8")
    assert main(["topics", *server, "--list"]) == 1
    assert "refuses the login" in capsys.readouterr().err


def test_a_command_takes_properties_one_by_one(
    broker: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = [f"--command-property={k}={v}" for k, v in broker.login("PLAIN").items()]
    server = ["-b", broker.address("login"), "--topic", "one-by-one", *properties]
    with connect(broker, "login", broker.login("PLAIN")) as client:
        client.create_topic("one-by-one", partitions=1)
        client.produce("one-by-one", b"a value")
    assert main(["consume", *server, "--from-beginning", "--max-messages", "1"]) == 0
    assert "a value" in capsys.readouterr().out
