"""The settings of Kafka's StandardAuthorizer, the only one that there is."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.config.broker import BrokerConfig

CLASS_NAME, SUPER_USERS = "authorizer.class.name", "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class AuthorizerConfig(Value):
    super_users: frozenset[str]
    allow_everyone_without_acl: bool


def authorizer_config(config: BrokerConfig) -> AuthorizerConfig | None:
    """The settings; None without an authorizer, ConfigError for one that there is not."""
    name: str = config[CLASS_NAME]
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise ConfigError(
            f"{CLASS_NAME}={name}: expected {STANDARD_AUTHORIZER}, or no authorizer, with which "
            "every client may do everything; kraftlog has no other"
        )
    return AuthorizerConfig(
        super_users=_super_users(config.texts.get(SUPER_USERS, "")),
        # Like Java, everything but true is false.
        allow_everyone_without_acl=config.texts.get(ALLOW_EVERYONE, "").strip().lower() == "true",
    )


def _super_users(text: str) -> frozenset[str]:
    """Principals with semicolons between them, as names in certificates have commas."""
    users = [each for part in text.split(";") if (each := part.strip())]
    for user in users:
        if ":" not in user:
            raise ConfigError(
                f"{SUPER_USERS}={text}: expected principals like User:alice, separated by "
                f"semicolons, and {user} has no type"
            )
    return frozenset(users)
