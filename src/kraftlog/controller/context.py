"""What a decision may use beside the state: who we are, the time, chance and new ids."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from kraftlog.controller.placement import Chance
    from kraftlog.controller.sessions import Sessions
    from kraftlog.types import Now, Uuid

    class Configs(Protocol):
        """What is known of configuration keys."""

        def check(self, resource_type: int, key: str, value: str, /) -> str | None:
            """What is wrong with a value, or with the key; None: nothing."""

        def is_list(self, resource_type: int, key: str, /) -> bool:
            """Whether values can be added to it and taken from it."""

        def default(self, resource_type: int, key: str, /) -> str | None:
            """What stands where nothing is set; None: nothing does, or the key is unknown."""

        def keys(self, resource_type: int, /) -> tuple[str, ...]:
            """All keys of a resource, sorted."""


class ControllerConfig(Value):
    node_id: int
    cluster_id: str
    default_partitions: int = 1
    default_replication_factor: int = 1
    #: A broker from which nothing was heard for so long is fenced.
    session_timeout_ms: int = 9000
    delete_topics: bool = True
    #: In how many elections at most one look for better leaders may end.
    elections_at_once: int = 1000


class Context:
    """One for each controller; `now` and `next_offset` are those of the request being decided."""

    __slots__ = (
        "chance",
        "config",
        "configs",
        "new_id",
        "next_offset",
        "now",
        "sessions",
        "static",
    )

    def __init__(
        self,
        config: ControllerConfig,
        configs: Configs,
        static: Mapping[str, str],
        sessions: Sessions,
        chance: Chance,
        new_id: Callable[[], Uuid],
    ) -> None:
        self.config = config
        self.configs = configs
        #: What the node's own configuration file sets.
        self.static = static
        self.sessions = sessions
        self.chance = chance
        self.new_id = new_id
        self.now: Now
        #: The offset that the first record of a decision will have.
        self.next_offset = 0
