"""`kraftlog delegation-tokens` with a node whose clients log in with SCRAM, and by its tokens."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.delegation_tokens import DelegationToken, create_token, describe_tokens
from kraftlog.errors import ClientError
from kraftlog.sasl.delegation_tokens import password_of
from tests.server.sasl_node import PASSWORD, SCRAM_MECHANISMS, USER, login, sasl_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.node_process import NodeProcess

SECRET = "the-secret-of-all-tokens"
SETTINGS = f"delegation.token.secret.key={SECRET}\n"
OWNER = f"User:{USER}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with sasl_node(tmp_path_factory.mktemp("tokens"), SETTINGS) as started:
        yield started


class Command:
    """The command, by a user of the node."""

    def __init__(self, node: NodeProcess, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._node, self._capsys = node, capsys
        self._file = folder / "client.properties"

    def __call__(self, *words: str, by: dict[str, str] | None = None) -> tuple[int, str, str]:
        given = login("SCRAM-SHA-256") if by is None else by
        self._file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        server = ["-b", self._node.address, "-c", str(self._file)]
        code = main(["delegation-tokens", *server, *words])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def command(node: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(node, tmp_path, capsys)


def by_token(token: Any, mechanism: str) -> dict[str, str]:
    properties = login(mechanism, token["hmac"], token["tokenId"])
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(
        ";", ' tokenauth="true";'
    )
    return properties


def test_a_token_is_created_described_renewed_and_ended(command: Command) -> None:
    [token] = command.json("--create", "--renewer-principal", "User:bob")
    assert (token["owner"], token["requester"], token["renewers"]) == (OWNER, OWNER, ["User:bob"])
    assert token["maxTimestampMs"] - token["issueTimestampMs"] == 7 * 24 * 3_600_000
    described = command.json("--describe", "--owner-principal", "User:bob")
    assert described == [token]
    assert command.json("--describe", "--owner-principal", "User:carol") == []
    assert token in command.json("--describe")
    renewed = command.json("--renew", "--hmac", token["hmac"], "--renew-time-period", "77000")
    [shortened] = command.json("--describe", "--owner-principal", "User:bob")
    assert shortened == {**token, **renewed}
    code, out, _ = command("--expire", "--hmac", token["hmac"], "--expiry-time-period", "-1")
    assert (code, out.startswith("The token expires at 2")) == (0, True)
    assert token["tokenId"] not in command("--describe")[1]


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_our_client_logs_in_by_a_token_and_gets_no_other(
    command: Command, node: NodeProcess, mechanism: str
) -> None:
    [token] = command.json("--create", "--owner-principal", "User:dave")
    security = by_token(token, mechanism)
    with Client(node.address, timeout_s=LIMIT_S, security=security) as client:
        assert client.describe_cluster().brokers
    code, _, err = command("--create", by=security)
    assert (code, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in err) == (1, True)
    wrong = {**token, "hmac": password_of(b"x" * 64)}
    with (
        Client(node.address, timeout_s=LIMIT_S, security=by_token(wrong, mechanism)) as client,
        pytest.raises(ClientError, match="refuses the login"),
    ):
        client.describe_cluster()
    written = node.output()
    for secret in (SECRET, PASSWORD, token["hmac"], b64decode(token["hmac"]).hex()):
        assert secret not in written


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["--renew"], "--renew needs --hmac", id="no-hmac"),
        pytest.param(
            ["--expire", "--hmac", "eA=="], "--expire needs --expiry-time-period", id="no-period"
        ),
        pytest.param(["--create", "--hmac", "eA=="], "--hmac does not go with --create", id="hmac"),
        pytest.param(
            ["--describe", "--renewer-principal", "User:a"],
            "--renewer-principal does not go with --describe",
            id="renewer",
        ),
        pytest.param(["--renew", "--hmac", "päss"], "--hmac: expected base 64", id="not-base-64"),
        pytest.param(
            ["--create", "--owner-principal", "User:a", "--owner-principal", "User:b"],
            "--create takes one --owner-principal",
            id="two-owners",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    command: Command, words: list[str], error: str
) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert error in err
    assert "päss" not in err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["--renew", "--hmac", "eA=="], "no token has this HMAC", id="unknown"),
        pytest.param(
            ["--create", "--owner-principal", "Group:a"], "INVALID_PRINCIPAL_TYPE", id="group"
        ),
    ],
)
def test_refusals_of_the_controller_are_explained(
    command: Command, words: list[str], error: str
) -> None:
    code, _, err = command(*words)
    assert (code, error in err) == (1, True)


def test_configs_do_not_show_the_secret(
    command: Command, node: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--describe")[0] == 0  # writes the file of properties
    server = ["-b", node.address, "-c", str(tmp_path / "client.properties")]
    assert main(["configs", *server, "--broker", "1", "--all", "--describe"]) == 0
    shown = capsys.readouterr().out
    assert "delegation.token.secret.key" in shown
    assert SECRET not in shown


def test_a_token_shows_its_hmac_only_on_request() -> None:
    token = DelegationToken("id", "secret-hmac", OWNER, OWNER, (), 1, 2, 3)
    assert repr(token) == "DelegationToken(id, owner=User:alice)"


def test_owners_and_requesters_are_told_apart(node: NodeProcess) -> None:
    with Client(node.address, timeout_s=LIMIT_S, security=login()) as client:
        token = create_token(client, owner="User:erin", max_lifetime_ms=60_000)
        assert (token.owner, token.requester) == ("User:erin", OWNER)
        assert describe_tokens(client, ["User:erin"]) == [token]
        assert describe_tokens(client, []) == []
