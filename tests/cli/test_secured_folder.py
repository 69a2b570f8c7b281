"""`kraftlog start --secure DIR`: what it writes, and that only those who have it get in."""

from __future__ import annotations

import os
import ssl
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.cli.local_cluster import ClusterPlan, plan, prepare
from kraftlog.cli.secured_folder import SUPER_USER, SecuredFolder
from kraftlog.cli.start import options_of
from kraftlog.config.properties import parse
from kraftlog.config.read_config import read_config
from kraftlog.errors import (
    AuthenticationError,
    ConfigError,
    ErrorCode,
    KraftlogError,
    RefusedError,
    StorageError,
)
from kraftlog.sasl.jaas import parse_jaas
from kraftlog.tls import authority
from kraftlog.tls.authority import Authority
from tests.client.waiting import until
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def planned(folder: Path, *words: str) -> ClusterPlan:
    options = options_of(["--secure", str(folder), *words])
    return plan(options, SecuredFolder.open(str(folder)))


def properties(path: Path) -> dict[str, str]:
    return parse(path.read_text())


def password(path: Path) -> str:
    return parse_jaas(properties(path)["sasl.jaas.config"])[1]["password"]


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_one_node_has_its_data_in_the_folder(tmp_path: Path) -> None:
    cluster = planned(tmp_path / "s")
    assert [node.directory for node in cluster.nodes] == [f"{tmp_path}/s/data/node-1"]
    assert not (tmp_path / "s").exists(), "a plan writes nothing"
    assert len(planned(tmp_path / "s", "--nodes", "3").nodes) == 3


def test_all_listeners_have_tls_and_ask_who_connects(tmp_path: Path) -> None:
    prepare(planned(tmp_path / "s"))
    config, warnings = read_config((tmp_path / "s/data/node-1.properties").read_text(), {})
    assert warnings == []
    assert [str(it).partition("://")[0] for it in config.listeners] == ["CLIENTS", "CONTROLLER"]
    text = (tmp_path / "s/data/node-1.properties").read_text()
    assert "CLIENTS:SASL_SSL,CONTROLLER:SSL\n" in text
    assert "listener.name.controller.ssl.client.auth=required\n" in text


def test_only_the_owner_can_read_secrets(tmp_path: Path) -> None:
    prepare(planned(tmp_path / "s"))
    assert os.stat(tmp_path / "s").st_mode & 0o777 == 0o700
    assert {os.stat(each).st_mode & 0o777 for each in (tmp_path / "s").glob("*.*")} == {0o600}
    names = {"ca.pem", "ca.key", "node.pem", "client.properties", "broker.properties"}
    assert contents(tmp_path / "s").keys() == names


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    first = planned(tmp_path / "s")
    [note] = prepare(first)
    assert str(tmp_path / "s/client.properties") in note
    before = contents(tmp_path / "s")
    second = planned(tmp_path / "s")
    assert second.texts == first.texts
    assert prepare(second) == []
    assert contents(tmp_path / "s") == before


def test_each_folder_has_passwords_of_its_own(tmp_path: Path) -> None:
    found = set()
    for name in ("a", "b"):
        prepare(planned(tmp_path / name))
        for file in ("client.properties", "broker.properties"):
            found.add(password(tmp_path / name / file))
    assert len(found) == 4
    assert all(len(each) >= 32 for each in found)


def test_an_interrupted_first_start_is_done_again(tmp_path: Path) -> None:
    """The file that ends it is the last: what was written before is used or replaced."""
    prepare(planned(tmp_path / "s"))
    authority_before = (tmp_path / "s/ca.pem").read_bytes()
    (tmp_path / "s/broker.properties").unlink()
    (tmp_path / "s/data/node-1/meta.properties").unlink()
    folder = tmp_path / "s/data/node-1/__cluster_metadata-0"
    for each in folder.iterdir():
        each.unlink()
    prepare(planned(tmp_path / "s"))
    assert (tmp_path / "s/ca.pem").read_bytes() == authority_before
    assert password(tmp_path / "s/client.properties") != password(tmp_path / "s/broker.properties")


def test_a_cluster_without_its_brokers_login_is_left_alone(tmp_path: Path) -> None:
    prepare(planned(tmp_path / "s"))
    (tmp_path / "s/broker.properties").unlink()
    with pytest.raises(StorageError, match=r"broker\.properties.* is missing"):
        planned(tmp_path / "s")
    (tmp_path / "s/broker.properties").write_text("security.protocol=SSL\n")
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        planned(tmp_path / "s")


def test_the_certificate_is_renewed_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Authority.open(str(tmp_path / "ca.pem"), str(tmp_path / "ca.key"))
    node = tmp_path / "node.pem"
    made.certify(str(node), "node", ["localhost"])
    first = node.read_bytes()
    again = Authority.open(str(tmp_path / "ca.pem"), str(tmp_path / "ca.key"))
    again.certify(str(node), "node", ["localhost"])
    assert node.read_bytes() == first

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # its time zone is UTC
            assert tz is UTC
            return datetime.now(UTC) + timedelta(days=authority.NODE_DAYS - 29)

    monkeypatch.setattr(authority, "datetime", Later)
    again.certify(str(node), "node", ["localhost"])
    assert node.read_bytes() != first


@pytest.mark.parametrize("why", ["other hosts", "another authority", "damaged"])
def test_a_certificate_that_is_no_good_is_replaced(tmp_path: Path, why: str) -> None:
    made = Authority.open(str(tmp_path / "ca.pem"), str(tmp_path / "ca.key"))
    node, hosts = tmp_path / "node.pem", ["localhost", "127.0.0.1", "::1"]
    made.certify(str(node), "node", ["localhost"] if why == "other hosts" else hosts)
    if why == "damaged":
        node.write_bytes(node.read_bytes()[:-200])
    if why == "another authority":
        made = Authority.open(str(tmp_path / "other.pem"), str(tmp_path / "other.key"))
        ssl.create_default_context(cafile=str(tmp_path / "other.pem"))
    before = node.read_bytes()
    made.certify(str(node), "node", hosts)
    assert node.read_bytes() != before
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(node)


def test_strict_clients_accept_the_certificate(tmp_path: Path) -> None:
    """As Python's are by default, from 3.13 on."""
    made = Authority.open(str(tmp_path / "ca.pem"), str(tmp_path / "ca.key"))
    made.certify(str(tmp_path / "node.pem"), "node", ["localhost"])
    strict = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    node = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    node.load_cert_chain(tmp_path / "node.pem")
    to_node, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = strict.wrap_bio(to_client, to_node, server_hostname="localhost")
    server = node.wrap_bio(to_node, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.version() == "TLSv1.3"
    assert client.getpeercert() is not None


def test_a_damaged_authority_is_an_error(tmp_path: Path) -> None:
    paths = str(tmp_path / "ca.pem"), str(tmp_path / "ca.key")
    Authority.open(*paths)
    (tmp_path / "ca.key").write_text("no key")
    with pytest.raises(ConfigError, match="not a certificate and its key"):
        Authority.open(*paths)


def test_the_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr(os, "umask", lambda _: None)
    assert main(["start", "--secure", str(tmp_path / "s")]) == 1
    assert "pip install 'kraftlog[secure]'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["file.properties"], ["--node-id", "2"], ["--bootstrap"]])
def test_it_makes_its_own_files(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(KraftlogError, match="--secure cannot be combined with"):
        planned(tmp_path / "s", *words)


def check_acls(servers: str, folder: Path) -> None:
    """Another user may do what ACLs say, and nothing else."""
    security = properties(folder / "client.properties")
    carol = dict(security)
    carol["sasl.jaas.config"] = carol["sasl.jaas.config"].replace(
        f'"{SUPER_USER}" password="{password(folder / "client.properties")}"',
        '"carol" password="carols"',
    )
    as_admin = ["-b", servers, "--command-config", str(folder / "client.properties")]
    scram = ["--add-config", "SCRAM-SHA-512=[password=carols]"]
    assert main(["configs", *as_admin, "--alter", "--entity-type", "users", "--entity-name",
                 "carol", *scram]) == 0  # fmt: skip
    until(lambda: outcome_of(servers, carol, lambda client: client.topics()), [])

    def produce(client: Client) -> object:
        return client.produce("t", b"two")

    assert outcome_of(servers, carol, produce) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow = ["acls", *as_admin, "--add", "--allow-principal", "User:carol", "--operation", "Write"]
    assert main([*allow, "--topic", "t"]) == 0
    until(lambda: isinstance(outcome_of(servers, carol, produce), int), False)

    def delete(client: Client) -> object:
        client.delete_topic("t")
        return None

    assert outcome_of(servers, carol, delete) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def outcome_of(servers: str, security: dict[str, str], call: Callable[[Client], object]) -> object:
    """What a call returns to a client, or the code with which it is refused; None: no login."""
    try:
        with Client(servers, timeout_s=LIMIT_S, security=security) as client:
            return call(client)
    except AuthenticationError:
        return None
    except RefusedError as error:
        return error.code


def test_clients_get_in_with_the_file_alone(tmp_path: Path) -> None:
    """Three nodes find each other, and refuse clients without the login or the authority."""
    folder = tmp_path / "s"
    cluster = LocalCluster(tmp_path, "--secure", str(folder))
    try:
        security = properties(folder / "client.properties")
        with Client(cluster.servers, timeout_s=LIMIT_S, security=security) as client:
            client.create_topic("t", partitions=3, replication_factor=3)
        librdkafka = Producer(
            {
                "bootstrap.servers": cluster.servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": SUPER_USER,
                "sasl.password": password(folder / "client.properties"),
                "ssl.ca.location": str(folder / "ca.pem"),
            }
        )
        librdkafka.produce("t", b"one")
        assert librdkafka.flush(LIMIT_S) == 0
        secret = password(folder / "client.properties")
        wrong = {
            key: value.replace(secret, "wrong") if key == "sasl.jaas.config" else value
            for key, value in security.items()
        }
        with (
            pytest.raises(AuthenticationError),
            Client(cluster.servers, timeout_s=LIMIT_S, security=wrong) as client,
        ):
            client.describe_cluster()
        check_acls(cluster.servers, folder)
        assert cluster.stop() == 0
        assert secret not in cluster.output()
    finally:
        cluster.end()
