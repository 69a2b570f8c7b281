"""The raft config that follows from a node's settings."""

from __future__ import annotations

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.server.start import raft_config


@pytest.mark.parametrize(
    ("roles", "retry_ms", "longest_ms", "awaits_commits"),
    [
        ("broker", 20, 100, True),
        ("broker", 300, 300, True),
        ("controller", 20, 1000, False),
        ("broker,controller", 20, 1000, True),
    ],
)
def test_raft_config_depends_on_the_roles(
    roles: str, retry_ms: int, longest_ms: int, awaits_commits: bool
) -> None:
    """Q24: a broker's clients wait while it looks for the leader; who serves none can wait for
    commits."""
    given = {"process.roles": roles, "controller.quorum.retry.backoff.ms": str(retry_ms)}
    config = raft_config(BrokerConfig(given), seed=1)
    assert (config.retry_backoff_ms, config.retry_backoff_max_ms) == (retry_ms, longest_ms)
    assert config.awaits_commits == awaits_commits
