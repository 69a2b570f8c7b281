"""The start of a node: the config of its raft core, and garbage collection."""

from __future__ import annotations

import gc

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.config.read_config import read_config
from kraftlog.server import start
from kraftlog.server.loop import GC_THRESHOLDS
from kraftlog.server.start import raft_config
from tests.virtual_host import SETTINGS


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
    """Q24: a broker retries to find the leader more often, because its clients wait.

    A node that is only a controller has no clients that could wait for commits.
    """
    settings = {"process.roles": roles, "controller.quorum.retry.backoff.ms": str(retry_ms)}
    config = raft_config(BrokerConfig(settings), seed=1)
    assert (config.retry_backoff_ms, config.retry_backoff_max_ms) == (retry_ms, longest_ms)
    assert config.awaits_commits == awaits_commits


class _StoppedError(Exception):
    """Ends the start at its first access of the directory."""


def test_full_collections_are_rare_while_the_metadata_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full collection would traverse all partitions that have been read."""

    def stop(*_: object, **__: object) -> None:
        raise _StoppedError

    before = gc.get_threshold()
    monkeypatch.setattr(start, "_ensure_formatted", stop)
    try:
        with pytest.raises(_StoppedError):
            start.serve(read_config(SETTINGS, {})[0], print)
        assert gc.get_threshold() == GC_THRESHOLDS
    finally:
        gc.set_threshold(*before)
