"""Aliases of settings: the KIP-595 names of `controller.quorum.*`."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: KIP-595 name -> the key that it stands for (Q33).
ALIASES = {
    "quorum.voters": "controller.quorum.voters",
    "bootstrap.quorum.voters": "controller.quorum.voters",
    "bootstrap.servers": "controller.quorum.bootstrap.servers",
    "quorum.fetch.timeout.ms": "controller.quorum.fetch.timeout.ms",
    "quorum.election.timeout.ms": "controller.quorum.election.timeout.ms",
    "quorum.election.backoff.max.ms": "controller.quorum.election.backoff.max.ms",
    "quorum.request.timeout.ms": "controller.quorum.request.timeout.ms",
    "quorum.retry.backoff.ms": "controller.quorum.retry.backoff.ms",
    "quorum.retry.backoff.max.ms": "kraftlog.quorum.retry.backoff.max.ms",
}


def replace_aliases(texts: Mapping[str, str]) -> dict[str, str]:
    """Replace aliases by the keys that they stand for; refuse two different values of one key."""
    by_key = {name: text for name, text in texts.items() if name not in ALIASES}
    for alias, name in ALIASES.items():
        if alias not in texts:
            continue
        given = by_key.setdefault(name, texts[alias])
        if given != texts[alias]:
            raise ConfigError(
                f"{alias}={texts[alias]}: the same setting as {name}={given}; remove one of the two"
            )
    return by_key


def alias_warnings(texts: Mapping[str, str]) -> list[str]:
    """A warning for each alias that is given."""
    return [f"{alias}: taken as {name}" for alias, name in ALIASES.items() if alias in texts]
