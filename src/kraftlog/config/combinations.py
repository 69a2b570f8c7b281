"""Combinations of valid settings that a Kafka broker refuses.

Each rule is a function that raises ConfigError; RULES has their order.
"""

from __future__ import annotations

from kraftlog.config.endpoints import is_any_address
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.config.endpoints import Listener

_CLEANER_BUFFER_BYTES = 1 << 20


def check_combinations(config: BrokerConfig) -> None:
    for rule in RULES:
        rule(config)


def _node_id_is_broker_id(config: BrokerConfig) -> None:
    broker_id: int = config["broker.id"]
    if config.is_given("broker.id") and broker_id != config.node_id:
        raise ConfigError(f"broker.id={broker_id}: expected the same as node.id={config.node_id}")


def _controller_addresses_are_set(config: BrokerConfig) -> None:
    if not (config["controller.quorum.voters"] or config["controller.quorum.bootstrap.servers"]):
        raise ConfigError(
            "the addresses of the controllers are unknown; set controller.quorum.bootstrap.servers "
            "(host:port, …) or controller.quorum.voters (id@host:port, …)"
        )


def _roles_fit_the_voters(config: BrokerConfig) -> None:
    ids = sorted({voter.id for voter in config.voters})
    if not ids:
        return
    if config.is_controller and config.node_id not in ids:
        raise ConfigError(
            f"node.id={config.node_id}: a controller must be one of controller.quorum.voters, "
            f"which are {_listed(ids)}"
        )
    if not config.is_controller and config.node_id in ids:
        raise ConfigError(
            f"node.id={config.node_id}: with process.roles=broker the node must not be one of "
            f"controller.quorum.voters, which are {_listed(ids)}"
        )


def _other_controllers_can_be_found(config: BrokerConfig) -> None:
    unknown = sorted([it.id for it in config.voters if not it.host and it.id != config.node_id])
    if unknown and not [it for it in config.bootstrap_servers if it != _own_address(config)]:
        raise ConfigError(
            f"controller.quorum.voters: no address is known for {_listed(unknown)}; write "
            "id@host:port, or set controller.quorum.bootstrap.servers (host:port, …), through "
            "which this node can find them"
        )


def _own_address(config: BrokerConfig) -> tuple[str, int] | None:
    own = config.own_voter
    return None if own is None else (own.host, own.port)


def _only_controllers_join(config: BrokerConfig) -> None:
    if config.controller_quorum_auto_join_enable and not config.is_controller:
        raise ConfigError(
            "controller.quorum.auto.join.enable=true: expected controller among process.roles"
        )


def _listeners_differ(config: BrokerConfig) -> None:
    for key, listeners in (
        ("listeners", config.listeners),
        ("advertised.listeners", config.advertised_listeners),
    ):
        _names_differ(key, listeners)
    _ports_differ(config.listeners)


def _names_differ(key: str, listeners: list[Listener]) -> None:
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key}: listener {name} appears twice")


def _ports_differ(listeners: list[Listener]) -> None:
    """Ports are unique, except that an IPv4 and an IPv6 address may share one."""
    families_by_port: dict[int, list[bool | None]] = {}
    for listener in listeners:
        families_by_port.setdefault(listener.port, []).append(_is_ipv6(listener.host))
    for port, families in families_by_port.items():
        if port and len(families) > 1 and sorted(map(str, families)) != ["False", "True"]:
            raise ConfigError(
                f"listeners: port {port} appears more than once; two listeners can share a port "
                "only if one has an IPv4 address and the other an IPv6 address"
            )


def _is_ipv6(host: str) -> bool | None:
    """Whether an address is IPv6; None for a host name."""
    if ":" in host:
        return True
    parts = host.split(".")
    return False if len(parts) == 4 and all(map(str.isdecimal, parts)) else None


def _listeners_fit_the_roles(config: BrokerConfig) -> None:
    names = [name.upper() for name in config.controller_listener_names]
    controller_listeners = [listener.name for listener in config.controller_listeners]
    shown = _listed(names)
    if not config.is_controller and controller_listeners:
        raise ConfigError(
            f"listeners: {_listed(controller_listeners)} is one of controller.listener.names, "
            "which a node with process.roles=broker must not listen on"
        )
    if config.is_controller and set(controller_listeners) != set(names):
        raise ConfigError(
            f"controller.listener.names={shown}: a controller must listen on each of them; "
            f"listeners has {_listed([each.name for each in config.listeners])}"
        )
    if not config.is_broker and config.broker_listeners:
        raise ConfigError(
            f"listeners: {_listed([each.name for each in config.broker_listeners])} is not one of "
            f"controller.listener.names={shown}, and process.roles=controller has no other"
        )


def _inter_broker_listener_is_advertised(config: BrokerConfig) -> None:
    name: str | None = config["inter.broker.listener.name"]
    if name is not None and config.is_given("security.inter.broker.protocol"):
        raise ConfigError(
            "give inter.broker.listener.name or security.inter.broker.protocol, not both"
        )
    if name is not None and name.upper() not in config.protocols:
        raise ConfigError(
            f"inter.broker.listener.name={name}: expected a listener of "
            f"listener.security.protocol.map: {_listed(list(config.protocols))}"
        )
    advertised = [each.name for each in config.advertised_listeners]
    if config.is_broker and config.inter_broker_listener_name not in advertised:
        raise ConfigError(
            f"inter.broker.listener.name={config.inter_broker_listener_name}: expected one of "
            f"advertised.listeners: {_listed(advertised)}"
        )


def _advertised_listeners_are_reachable(config: BrokerConfig) -> None:
    if not config.is_broker:
        return
    names = [each.name for each in config.listeners]
    for listener in config.advertised_listeners:
        if is_any_address(listener.host):
            raise ConfigError(
                f"advertised.listeners: clients cannot connect to {listener}; set a host or an "
                "address (advertised.listeners defaults to listeners)"
            )
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners: {listener.name} is not one of listeners: {_listed(names)}"
            )


def _early_listeners_exist(config: BrokerConfig) -> None:
    names = {each.name for each in config.listeners}
    names |= {name.upper() for name in config.controller_listener_names}
    for name in config["early.start.listeners"] or ():
        if name.upper() not in names:
            raise ConfigError(
                f"early.start.listeners={name}: expected one of {_listed(sorted(names))}"
            )


def _retention_and_roll_times_are_valid(config: BrokerConfig) -> None:
    if config.log_retention_ms == 0:
        raise ConfigError(
            "log.retention.ms=0 (or .minutes, .hours): expected -1 for ever, or at least 1"
        )
    if config.log_roll_ms < 1:
        raise ConfigError(f"log.roll.ms={config.log_roll_ms}: expected at least 1")
    if config.log_roll_jitter_ms < 0:
        raise ConfigError(f"log.roll.jitter.ms={config.log_roll_jitter_ms}: expected at least 0")


def _cleaner_buffer_is_large_enough(config: BrokerConfig) -> None:
    size: int = config["log.cleaner.dedupe.buffer.size"]
    threads: int = config["log.cleaner.threads"]
    if threads and size // threads <= _CLEANER_BUFFER_BYTES:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={size}: expected more than 1048576 for each of the "
            f"{threads} log.cleaner.threads"
        )


def _cordoned_paths_are_log_dirs(config: BrokerConfig) -> None:
    for path in config["cordoned.log.dirs"]:
        if path != "*" and path not in config.data_directories:
            raise ConfigError(
                f"cordoned.log.dirs={path}: expected one of log.dirs: "
                f"{_listed(config.data_directories)}"
            )


def _follower_fetch_wait_is_within_timeouts(config: BrokerConfig) -> None:
    wait = config.replica_fetch_wait_max_ms
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config[name]:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait}: expected at most {name}={config[name]}"
            )


def _queue_holds_a_request(config: BrokerConfig) -> None:
    size: int = config["queued.max.request.bytes"]
    if 0 < size < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes={size}: expected at least "
            f"socket.request.max.bytes={config.socket_request_max_bytes}"
        )


def _connection_limits_are_valid(config: BrokerConfig) -> None:
    overrides: str = config["max.connections.per.ip.overrides"]
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConfigError(
            "max.connections.per.ip=0: expected at least 1 without max.connections.per.ip.overrides"
        )
    for entry in overrides.split(",") if overrides else ():
        host, _, count = entry.strip().rpartition(":")
        if not (host and count.strip().isdecimal()):
            raise ConfigError(
                f"max.connections.per.ip.overrides={overrides}: expected a list of host:number"
            )


def _authentication_delay_is_below_the_idle_timeout(config: BrokerConfig) -> None:
    delay: int = config["connection.failed.authentication.delay.ms"]
    idle = config.connections_max_idle_ms
    if 0 <= idle <= delay:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms={delay}: expected less than "
            f"connections.max.idle.ms={idle}"
        )


def _codecs_are_known(config: BrokerConfig) -> None:
    for name in _CODEC_KEYS:
        if not 0 <= config[name] <= 4:
            raise ConfigError(
                f"{name}={config[name]}: expected 0 for none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
            )


_CODEC_KEYS = (
    "offsets.topic.compression.codec",
    "share.coordinator.state.topic.compression.codec",
)


def _classic_protocol_is_enabled(config: BrokerConfig) -> None:
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise ConfigError(
            "group.coordinator.rebalance.protocols="
            f"{','.join(config.group_coordinator_rebalance_protocols)}: expected classic among them"
        )


def _assignors_are_known(config: BrokerConfig) -> None:
    """Kafka would load any other name as a class; here packages offer assignors by name."""
    for name, assignors in _ASSIGNORS.items():
        for assignor in config[name]:
            if assignor not in assignors and not _is_offered(name, assignor):
                raise ConfigError(f"{name}={assignor}: expected {_listed(assignors)}")


def _is_offered(name: str, assignor: str) -> bool:
    """Whether an installed package has an assignor of consumer groups."""
    if name != "group.consumer.assignors":
        return False
    from importlib.metadata import entry_points

    return assignor in entry_points(group=ASSIGNORS_OF_PACKAGES).names


#: The assignors of consumer groups that every node has, and the entry points of others.
BUILTIN_ASSIGNORS = "uniform", "range"
ASSIGNORS_OF_PACKAGES = "kraftlog.group.assignors"
_ASSIGNORS: dict[str, tuple[str, ...]] = {
    "group.consumer.assignors": BUILTIN_ASSIGNORS,
    "group.share.assignors": ("simple",),
    "group.streams.assignors": ("sticky",),
}


def _group_limits_hold(config: BrokerConfig) -> None:
    """Group defaults are within their limits; heartbeats come more often than sessions expire."""
    for group_type in ("consumer", "share", "streams"):
        for limited in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            _check_between(
                config,
                f"group.{group_type}.{limited}",
                f"group.{group_type}.min.{limited}",
                f"group.{group_type}.max.{limited}",
            )
        heartbeat = f"group.{group_type}.heartbeat.interval.ms"
        session = f"group.{group_type}.session.timeout.ms"
        if config[heartbeat] >= config[session]:
            raise ConfigError(
                f"{heartbeat}={config[heartbeat]}: expected less than {session}={config[session]}"
            )
    _check_at_most(
        config, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    )
    _check_at_most(config, "group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas")
    _check_at_most(
        config, "group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"
    )
    _check_at_most(config, "group.share.max.size", "group.share.max.share.sessions")
    for limited in (
        "delivery.count.limit",
        "record.lock.duration.ms",
        "partition.max.record.locks",
    ):
        _check_between(
            config,
            f"group.share.{limited}",
            f"group.share.min.{limited}",
            f"group.share.max.{limited}",
        )


def _check_at_most(config: BrokerConfig, name: str, most: str) -> None:
    if config[name] > config[most]:
        raise ConfigError(f"{name}={config[name]}: expected at most {most}={config[most]}")


def _check_between(config: BrokerConfig, name: str, least: str, most: str) -> None:
    _check_at_most(config, least, most)
    if not config[least] <= config[name] <= config[most]:
        raise ConfigError(
            f"{name}={config[name]}: expected between {least}={config[least]} and "
            f"{most}={config[most]}"
        )


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "empty"


RULES: tuple[Callable[[BrokerConfig], None], ...] = (
    _node_id_is_broker_id,
    _controller_addresses_are_set,
    _roles_fit_the_voters,
    _other_controllers_can_be_found,
    _only_controllers_join,
    _listeners_differ,
    _listeners_fit_the_roles,
    _inter_broker_listener_is_advertised,
    _advertised_listeners_are_reachable,
    _early_listeners_exist,
    _retention_and_roll_times_are_valid,
    _cleaner_buffer_is_large_enough,
    _cordoned_paths_are_log_dirs,
    _follower_fetch_wait_is_within_timeouts,
    _queue_holds_a_request,
    _connection_limits_are_valid,
    _authentication_delay_is_below_the_idle_timeout,
    _codecs_are_known,
    _classic_protocol_is_enabled,
    _assignors_are_known,
    _group_limits_hold,
)
