"""The KIP-595 names of settings are aliases of Kafka's names (Q33)."""

from __future__ import annotations

import pytest

from kraftlog.config.aliases import ALIASES
from kraftlog.config.endpoints import QuorumVoter
from kraftlog.config.keys import find_broker_key
from kraftlog.config.read_config import read_config
from kraftlog.errors import ConfigError
from kraftlog.server.start import MAX_BROKER_BACKOFF_MS, raft_config
from tests.config.starts import properties_of_case

ALIASES_IN_FILE = """\
quorum.voters=1@a:1, 2@[::1]:2 ; -controller.quorum.voters ; quorum.fetch.timeout.ms=71 ; \
quorum.election.timeout.ms=72 ; quorum.election.backoff.max.ms=73 ; quorum.request.timeout.ms=74 ; \
quorum.retry.backoff.ms=75 ; quorum.retry.backoff.max.ms=76"""


def test_q33_aliases_take_effect_and_are_logged() -> None:
    config, warnings = read_config(properties_of_case(ALIASES_IN_FILE), {})
    assert config.voters == [QuorumVoter(1, "a", 1), QuorumVoter(2, "::1", 2)]
    raft = raft_config(config, 0)
    assert (raft.fetch_timeout_ms, raft.election_timeout_ms) == (71, 72)
    assert (raft.election_backoff_max_ms, raft.retry_backoff_ms) == (73, 75)
    assert raft.retry_backoff_max_ms == 76
    assert config.controller_quorum_request_timeout_ms == 74
    given = {alias: name for alias, name in ALIASES.items() if f"{alias}=" in ALIASES_IN_FILE}
    assert len(given) == len(ALIASES) - 2  # two are alternatives to quorum.voters
    assert warnings == [f"{alias}: taken as {name}" for alias, name in given.items()]


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_q33_every_alias_names_a_setting_that_exists(alias: str, name: str) -> None:
    assert find_broker_key(name) is not None
    assert find_broker_key(alias) is None


def test_q33_bootstrap_servers_and_voters_have_aliases() -> None:
    servers = "-controller.quorum.voters ; bootstrap.servers=h:1,i:2"
    config, _ = read_config(properties_of_case(servers), {})
    assert config.bootstrap_servers == [("h", 1), ("i", 2)]
    voters = "-controller.quorum.voters ; bootstrap.quorum.voters=1@h:1"
    config, _ = read_config(properties_of_case(voters), {})
    assert config.voters == [QuorumVoter(1, "h", 1)]


def test_q33_two_values_of_one_setting_are_refused() -> None:
    both = "quorum.fetch.timeout.ms=5 ; controller.quorum.fetch.timeout.ms=6"
    with pytest.raises(ConfigError, match=r"quorum\.fetch\.timeout\.ms=5: the same setting as"):
        read_config(properties_of_case(both), {})
    config, _ = read_config(properties_of_case(both.replace("6", "5")), {})
    assert config.controller_quorum_fetch_timeout_ms == 5


def test_q33_an_override_precedes_the_file_by_either_name() -> None:
    text = properties_of_case("controller.quorum.fetch.timeout.ms=6")
    config, _ = read_config(text, {"quorum.fetch.timeout.ms": "5"})
    assert config.controller_quorum_fetch_timeout_ms == 5


def test_q33_a_broker_has_a_shorter_fetch_backoff_than_a_controller() -> None:
    file = "process.roles=broker ; -controller.quorum.voters ; bootstrap.servers=h:1 ; node.id=7"
    text = properties_of_case(f"{file} ; listeners=PLAINTEXT://:9092")
    config, _ = read_config(text, {})
    assert raft_config(config, 0).retry_backoff_max_ms == MAX_BROKER_BACKOFF_MS
