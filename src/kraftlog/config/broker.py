"""`BrokerConfig`: the settings of a node, from its file.

The node reads them as attributes; `ConfigLayers.value(key)` is for those that can change while it
runs. Each value is parsed and checked on first use. Settings that depend on several keys, such as
log.retention.ms, .minutes and .hours, are properties.
"""

from __future__ import annotations

from kraftlog.config.endpoints import (
    SECURITY_PROTOCOLS,
    WITH_SASL,
    WITH_TLS,
    Listener,
    QuorumVoter,
    parse_listener,
    parse_protocol_map,
    parse_server,
    parse_static_voter,
)
from kraftlog.config.keys import find_broker_key
from kraftlog.config.setting import setting
from kraftlog.config.values import default_of, parse_value
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class BrokerConfig:
    """`config.num_partitions`; `config["num.partitions"]` only in this package."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        #: The texts of the keys that are set; broker.id and node.id are synonyms.
        self.texts = dict(texts)
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if other in texts:
                self.texts.setdefault(name, texts[other])
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            key = find_broker_key(name)
            if key is None:
                raise KeyError(name)
            if name in self.texts:
                self._values[name] = parse_value(key, self.texts[name])
            elif key.required:
                raise ConfigError(f"{name} is required")
            else:
                self._values[name] = default_of(key)
        return self._values[name]

    def is_given(self, name: str) -> bool:
        return name in self.texts

    # Identity ----------------------------------------------------------------------------------

    node_id: int = setting()
    broker_rack: str | None = setting()
    process_roles: list[str] = setting()
    broker_heartbeat_interval_ms: int = setting()
    broker_session_timeout_ms: int = setting()
    controlled_shutdown_enable: bool = setting()
    kraftlog_fence_on_connection_refused: bool = setting()

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    # The quorum --------------------------------------------------------------------------------

    controller_quorum_election_timeout_ms: int = setting()
    controller_quorum_election_backoff_max_ms: int = setting()
    controller_quorum_fetch_timeout_ms: int = setting()
    controller_quorum_fetch_max_bytes: int = setting()
    controller_quorum_fetch_snapshot_max_bytes: int = setting()
    controller_quorum_request_timeout_ms: int = setting()
    controller_quorum_retry_backoff_ms: int = setting()
    controller_quorum_auto_join_enable: bool = setting()
    metadata_log_max_record_bytes_between_snapshots: int = setting()
    metadata_log_max_snapshot_interval_ms: int = setting()
    kraftlog_quorum_max_failed_elections: int = setting()
    kraftlog_quorum_retry_backoff_max_ms: int = setting()

    @property
    def voters(self) -> list[QuorumVoter]:
        """The static voters of `controller.quorum.voters`; none in a dynamic quorum."""
        texts: list[str] = self["controller.quorum.voters"]
        return [voter for text in texts if (voter := parse_static_voter(text))]

    @property
    def own_voter(self) -> QuorumVoter | None:
        """This node as a static voter with an address."""
        own = [it for it in self.voters if it.id == self.node_id and it.host]
        return own[0] if own else None

    @property
    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """Bootstrap servers of the quorum; by default the addresses of the static voters."""
        texts: list[str] = self["controller.quorum.bootstrap.servers"]
        servers = [server for text in texts if (server := parse_server(text))]
        return servers or [(voter.host, voter.port) for voter in self.voters if voter.host]

    # Listeners ---------------------------------------------------------------------------------

    controller_listener_names: list[str] = setting()
    socket_request_max_bytes: int = setting()
    connections_max_idle_ms: int = setting()
    max_connections_per_ip: int = setting()
    kraftlog_http_port: int = setting()
    queued_max_request_bytes: int = setting()

    @property
    def protocols(self) -> dict[str, str]:
        """Listener -> security protocol.

        Without a map, controller listeners are PLAINTEXT, unless a listener has the name of another
        security protocol.
        """
        protocols = parse_protocol_map(self["listener.security.protocol.map"])
        if not self.is_given("listener.security.protocol.map"):
            names = {
                *self._controller_names(),
                *[text.partition(":")[0].upper() for text in self["listeners"]],
            }
            if names.isdisjoint(SECURITY_PROTOCOLS[1:]):
                protocols.update(dict.fromkeys(self._controller_names(), "PLAINTEXT"))
        return protocols

    @property
    def uses_tls(self) -> bool:
        """Whether this node listens, or connects to other nodes, with TLS."""
        return not self._protocols_in_use.isdisjoint(WITH_TLS)

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in at this node, or this node at others."""
        return not self._protocols_in_use.isdisjoint(WITH_SASL)

    @property
    def _protocols_in_use(self) -> set[str | None]:
        protocols = self.protocols
        names = [*[each.name for each in self.listeners], *self._controller_names()]
        return {protocols.get(name) for name in names}

    def _controller_names(self) -> list[str]:
        return [name.upper() for name in self.controller_listener_names]

    @property
    def listeners(self) -> list[Listener]:
        """The addresses to listen on."""
        return self._parsed("listeners")

    @property
    def controller_listeners(self) -> list[Listener]:
        return [each for each in self.listeners if each.name in self._controller_names()]

    @property
    def broker_listeners(self) -> list[Listener]:
        return [each for each in self.listeners if each.name not in self._controller_names()]

    @property
    def advertised_listeners(self) -> list[Listener]:
        """The advertised addresses; by default those of `listeners`."""
        if not self.is_given("advertised.listeners"):
            return self.broker_listeners
        given = self._parsed("advertised.listeners")
        return [each for each in given if each.name not in self._controller_names()]

    @property
    def advertised_controller_listeners(self) -> list[Listener]:
        """The advertised addresses of this controller."""
        given = (
            self._parsed("advertised.listeners") if self.is_given("advertised.listeners") else []
        )
        advertised = {each.name: each for each in given}
        return [advertised.get(each.name, each) for each in self.controller_listeners]

    def _parsed(self, key: str) -> list[Listener]:
        protocols = self.protocols
        return [parse_listener(text, key, protocols) for text in self[key]]

    @property
    def inter_broker_listener_name(self) -> str:
        """The name of the inter-broker listener; by default the name of the security protocol."""
        name: str | None = self["inter.broker.listener.name"]
        if name is not None:
            return name.upper()
        protocol: str = self["security.inter.broker.protocol"]
        return protocol

    # Topics ------------------------------------------------------------------------------------

    num_partitions: int = setting()
    default_replication_factor: int = setting()
    auto_create_topics_enable: bool = setting()
    delete_topic_enable: bool = setting()
    auto_leader_rebalance_enable: bool = setting()
    leader_imbalance_check_interval_seconds: int = setting()
    fetch_max_bytes: int = setting()

    # Replication -------------------------------------------------------------------------------

    num_replica_fetchers: int = setting()
    replica_fetch_backoff_ms: int = setting()
    replica_fetch_max_bytes: int = setting()
    replica_fetch_min_bytes: int = setting()
    replica_fetch_response_max_bytes: int = setting()
    replica_fetch_wait_max_ms: int = setting()
    replica_high_watermark_checkpoint_interval_ms: int = setting()
    replica_lag_max_bytes: int = setting()
    replica_lag_time_max_ms: int = setting()
    replica_selector_class: str | None = setting()
    replica_socket_timeout_ms: int = setting()
    replication_quota_window_num: int = setting()
    replication_quota_window_size_seconds: int = setting()

    # Quotas of clients -------------------------------------------------------------------------

    controller_quota_window_num: int = setting()
    controller_quota_window_size_seconds: int = setting()
    quota_window_num: int = setting()
    quota_window_size_seconds: int = setting()

    # Logs --------------------------------------------------------------------------------------

    log_retention_check_interval_ms: int = setting()
    alter_log_dirs_replication_quota_window_num: int = setting()
    alter_log_dirs_replication_quota_window_size_seconds: int = setting()
    kraftlog_reserve_bytes: int = setting()
    kraftlog_stray_delete_delay_ms: int = setting()
    kraftlog_sync_timeout_ms: int = setting()
    log_cleaner_enable: bool = setting()
    log_initial_task_delay_ms: int = setting()

    @property
    def data_directories(self) -> list[str]:
        """`log.dirs`, or else `log.dir`."""
        texts: list[str] | None = self["log.dirs"]
        paths: list[str] = self["log.dir"] if texts is None else texts
        return paths

    @property
    def metadata_directory(self) -> str:
        """The directory of the metadata log; by default the first data directory."""
        text: str | None = self["metadata.log.dir"]
        return text or self.data_directories[0]

    @property
    def directories(self) -> list[str]:
        """The data directories and the metadata directory, sorted."""
        return sorted({*self.data_directories, self.metadata_directory})

    @property
    def log_retention_ms(self) -> int:
        """Retention time from the smallest unit that is set; -1: unlimited."""
        minutes: int | None = self["log.retention.minutes"]
        larger_unit_ms = self["log.retention.hours"] * _HOUR_MS
        if minutes is not None:
            larger_unit_ms = minutes * _MINUTE_MS
        millis: int | None = self["log.retention.ms"]
        return max(larger_unit_ms if millis is None else millis, -1)

    @property
    def log_roll_ms(self) -> int:
        millis: int | None = self["log.roll.ms"]
        hours: int = self["log.roll.hours"]
        return hours * _HOUR_MS if millis is None else millis

    @property
    def log_roll_jitter_ms(self) -> int:
        millis: int | None = self["log.roll.jitter.ms"]
        hours: int = self["log.roll.jitter.hours"]
        return hours * _HOUR_MS if millis is None else millis

    # Groups and producers ----------------------------------------------------------------------

    offsets_topic_num_partitions: int = setting()
    offsets_topic_replication_factor: int = setting()
    offsets_topic_segment_bytes: int = setting()
    offsets_retention_minutes: int = setting()
    offsets_retention_check_interval_ms: int = setting()
    offset_metadata_max_bytes: int = setting()
    offsets_commit_timeout_ms: int = setting()
    group_initial_rebalance_delay_ms: int = setting()
    group_min_session_timeout_ms: int = setting()
    group_max_session_timeout_ms: int = setting()
    group_max_size: int = setting()
    group_coordinator_rebalance_protocols: list[str] = setting()
    group_consumer_session_timeout_ms: int = setting()
    group_consumer_min_session_timeout_ms: int = setting()
    group_consumer_max_session_timeout_ms: int = setting()
    group_consumer_heartbeat_interval_ms: int = setting()
    group_consumer_min_heartbeat_interval_ms: int = setting()
    group_consumer_max_heartbeat_interval_ms: int = setting()
    group_consumer_assignment_interval_ms: int = setting()
    group_consumer_min_assignment_interval_ms: int = setting()
    group_consumer_max_assignment_interval_ms: int = setting()
    group_consumer_assignors: list[str] = setting()
    group_consumer_max_size: int = setting()
    group_consumer_regex_refresh_interval_ms: int = setting()
    group_consumer_migration_policy: str = setting()
    max_incremental_fetch_session_cache_slots: int = setting()
    producer_id_expiration_check_interval_ms: int = setting()
