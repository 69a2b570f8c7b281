"""What the settings say about delegation tokens."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.config.broker import BrokerConfig


class TokenConfig(Value):
    #: The key of all HMACs, the same on all nodes of a cluster.
    secret: str
    max_lifetime_ms: int
    #: How long a token lives, unless it is renewed.
    expiry_time_ms: int
    check_interval_ms: int

    def __repr__(self) -> str:
        return "TokenConfig(secret hidden)"


def token_config(config: BrokerConfig) -> TokenConfig | None:
    """The settings; None without a secret key, or with an empty one: there are no tokens then."""
    secret: str = config["delegation.token.secret.key"]
    if not secret:
        return None
    return TokenConfig(
        secret,
        config["delegation.token.max.lifetime.ms"],
        config["delegation.token.expiry.time.ms"],
        config["delegation.token.expiry.check.interval.ms"],
    )
