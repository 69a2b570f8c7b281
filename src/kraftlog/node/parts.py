"""Creates the parts of a node for its roles.

Modules that only some roles need are imported on creation: a broker imports no controller.
"""

from __future__ import annotations

from functools import partial

from kraftlog.config.authorizer import authorizer_config
from kraftlog.config.endpoints import WITH_SASL, is_any_address
from kraftlog.effects import StopNode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, endpoint_of
from kraftlog.metadata.features import KRAFT_VERSION
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.node.client_quotas import ClientQuotas
from kraftlog.node.feature_levels import FeatureLevels
from kraftlog.node.quorum.addresses import advertised_endpoints
from kraftlog.node.quorum.discovery import Discovery
from kraftlog.node.quorum.driver import QuorumDriver
from kraftlog.node.quorum.leader_watch import LeaderWatch
from kraftlog.node.quorum.wrong_cluster import WrongClusterStop
from kraftlog.raft.core import RaftCore
from kraftlog.replication.fetcher import fetch_config_of
from kraftlog.replication.producer_expiration import ProducerExpiration
from kraftlog.replication.read_replica import selects_by_rack
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.services import ReplicationConfig
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.authorization.authorizer import Authorizer
    from kraftlog.node.authentication import Authentication
    from kraftlog.node.broker.broker_lifecycle import BrokerLifecycle
    from kraftlog.node.broker.overridden_min_isr import OverriddenMinIsr
    from kraftlog.node.config import RecoveredMetadata
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.controller.broker_probes import BrokerProbes
    from kraftlog.node.controller.registration import ControllerRegistration
    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.node import Node
    from kraftlog.node.quorum.voter_updater import VoterUpdater
    from kraftlog.part import Part
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message


def replica_manager(node: Node) -> ReplicaManager:
    settings = node.config.settings
    return ReplicaManager(
        ReplicationConfig(
            listener=settings.inter_broker_listener_name,
            max_lag_ms=lambda: settings.replica_lag_time_max_ms,
            max_lag_bytes=settings.replica_lag_max_bytes,
            fetch=fetch_config_of(settings),
            selects_by_rack=selects_by_rack(settings.replica_selector_class),
            quota_windows=settings.replication_quota_window_num,
            quota_window_ms=1000 * settings.replication_quota_window_size_seconds,
        ),
        node.metadata_loader,
        node.topic_configs,
        node,
    )


def authentication(node: Node) -> Authentication | None:
    """What authenticates the clients of listeners with SASL; None if there is no such listener."""
    if not any(each.protocol in WITH_SASL for each in node.config.settings.listeners):
        return None
    from kraftlog.node.authentication import Authentication

    return Authentication(node)


def authorizer(node: Node) -> Authorizer | None:
    """What decides who may do what; None if everyone may do everything."""
    settings = authorizer_config(node.config.settings)
    if settings is None:
        return None
    from kraftlog.authorization.authorizer import Authorizer

    return Authorizer(
        settings.super_users,
        allow_everyone_without_acl=settings.allow_everyone_without_acl,
        has_loaded=lambda: node.quorum.has_caught_up,
    )


def client_quotas(node: Node) -> ClientQuotas:
    settings = node.config.settings
    return ClientQuotas(
        (settings.quota_window_num, 1000 * settings.quota_window_size_seconds),
        (
            settings.controller_quota_window_num,
            1000 * settings.controller_quota_window_size_seconds,
        ),
        node.metadata_loader,
        lambda: node.now,
        node.wait_for_ms,
        node.config.stopwatch_ns,
    )


def quorum_driver(node: Node, metadata: RecoveredMetadata) -> QuorumDriver:
    config, settings = node.config, node.config.settings
    me = ReplicaKey(config.node_id, config.directory_id)
    return QuorumDriver(
        RaftCore(
            me,
            metadata.log,
            metadata.election,
            config.raft,
            node.now,
            config.cluster_id,
            partial(registered_voter, node),
        ),
        node,
        node.emit,
        node.sliced,
        applied=metadata.applied,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        bootstrap_addresses=dict(
            zip(config.raft.bootstrap_ids, settings.bootstrap_servers, strict=False)
        ),
        static_addresses={i: (at.host, at.port) for i, at in node.named_voters.items()},
        advertised_endpoints=advertised_endpoints(settings),
        listener=settings.controller_listener_names[0],
    )


def wrong_cluster(node: Node) -> WrongClusterStop:
    settings = node.config.settings
    key = "controller.quorum." + ("voters" if settings.voters else "bootstrap.servers")
    return WrongClusterStop(
        node.quorum, node.controller_channel.send_to, node.emit, settings.metadata_directory, key
    )


def discovery(node: Node, last_boot_ms: int, now: Now) -> Discovery:
    settings = node.config.settings
    return Discovery(
        node.quorum,
        node.emit,
        now,
        own_endpoint=partial(_own_controller_endpoint, node),
        bootstrap_servers=settings.bootstrap_servers,
        last_boot_ms=last_boot_ms,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
    )


def _own_controller_endpoint(node: Node) -> tuple[str, int] | None:
    """Where other controllers reach this one; None on a pure broker, or if its host is not known.

    If the settings name no host, the host is that of this node's voter record.
    """
    settings, me = node.config.settings, node.config.node_id
    name = settings.controller_listener_names[0]
    listener = endpoint_of(settings.advertised_controller_listeners, name)
    advertised = endpoint_of(node.config.controller_addresses, name)
    if not settings.is_controller or listener is None or advertised is None:
        return None
    named = node.named_voters.get(me)
    if named is not None and not settings.is_given("advertised.listeners"):
        return named.host, named.port
    host = advertised.host
    if listener.is_wildcard:
        voter = node.quorum.core.log.voter_set.voter(me)
        recorded = endpoint_of(voter.endpoints, name) if voter is not None else None
        host = recorded.host if recorded is not None else host
    return None if is_any_address(host) else (host, advertised.port)


def registered_voter(node: Node, key: ReplicaKey) -> Voter | None:
    """A controller as a voter, with the endpoints that it has registered."""
    registered = node.image.controllers.get(key.id)
    if registered is None:
        return None
    endpoints = [Endpoint(it.name, it.host, it.port) for it in registered.end_points]
    versions = [
        (it.min_supported_version, it.max_supported_version)
        for it in registered.features
        if it.name == KRAFT_VERSION
    ]
    return Voter(key, tuple(endpoints), *(versions[0] if versions else (0, 0)))


def active_controller(node: Node, bootstrap: Sequence[Message]) -> ActiveController:
    from kraftlog.controller.context import ControllerConfig
    from kraftlog.controller.controller import Controller
    from kraftlog.node.controller.active_controller import ActiveController

    config, settings = node.config, node.config.settings
    controller = Controller(
        ControllerConfig(
            node_id=config.node_id,
            cluster_id=config.cluster_id or "",
            default_partitions=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            session_timeout_ms=settings.broker_session_timeout_ms,
            delete_topics=settings.delete_topic_enable,
            has_authorizer=authorizer_config(settings) is not None,
            rebalance_leaders=settings.auto_leader_rebalance_enable,
            rebalance_interval_ms=1000 * settings.leader_imbalance_check_interval_seconds,
            tokens=node.delegation_tokens,
        ),
        rng=config.rng,
        new_id=config.new_id,
        static_config=settings.texts,
        voters=lambda: node.quorum.core.log.voter_set,
        reported_voters=lambda: node.quorum.core.reported_voters,
        missing_report_reasons=lambda: node.quorum.core.missing_report_reasons,
    )
    return ActiveController(
        controller,
        node.quorum,
        bootstrap,
        node.emit,
        node.logs,
        node.sliced,
        node.client_quotas.mutations_of,
    )


def broker_probes(node: Node, active_controller: ActiveController) -> BrokerProbes:
    from kraftlog.node.controller.broker_probes import BrokerProbes

    return BrokerProbes(
        node.config.node_id,
        node.config.settings.inter_broker_listener_name,
        active_controller.controller,
        node.metadata_loader,
        node.emit,
    )


def controller_registrations(node: Node) -> list[Part]:
    """What makes a controller known to the others."""
    return [voter_updater(node), controller_registration(node)]


def voter_updater(node: Node) -> VoterUpdater:
    """It records this node's endpoint from controller.quorum.voters, if that names one."""
    from kraftlog.config.endpoints import Listener
    from kraftlog.node.quorum.voter_updater import VoterUpdater

    settings = node.config.settings
    listeners = settings.advertised_controller_listeners
    if settings.own_voter is not None:
        named = node.named_voters.get(node.config.node_id)
        listeners = [Listener(named.name, named.host, named.port)] if named else []
    joins = settings.controller_quorum_auto_join_enable
    return VoterUpdater(
        node.quorum,
        node.controller_channel.send,
        listeners,
        node.log_line,
        join_endpoints=_endpoints_as_voter(node) if joins else (),
    )


def controller_registration(node: Node) -> ControllerRegistration:
    from kraftlog.node.controller.registration import ControllerRegistration

    return ControllerRegistration(
        node.quorum,
        lambda: node.image,
        node.controller_channel.send,
        node.config.new_id(),
        node.config.controller_addresses,
    )


def _endpoints_as_voter(node: Node) -> list[Endpoint]:
    """The endpoints of this controller once it is a voter."""
    addresses = node.config.controller_addresses
    return [Endpoint(it.name, it.host, it.port) for it in addresses]


def broker_lifecycle(node: Node) -> BrokerLifecycle:
    from kraftlog.node.broker.broker_lifecycle import BrokerLifecycle

    config, settings = node.config, node.config.settings
    return BrokerLifecycle(
        broker_id=config.node_id,
        cluster_id=lambda: node.cluster_id,
        incarnation=config.new_id(),
        directories=[it for it in node.logs.directories if it.id != NULL_UUID],
        cordoned=node.cordoned_directories.ids,
        unwritable=node.logs.unwritable,
        addresses=config.addresses,
        rack=settings.broker_rack,
        heartbeat_ms=settings.broker_heartbeat_interval_ms,
        session_ms=settings.broker_session_timeout_ms,
        controller_channel=node.controller_channel,
        applied=lambda: node.quorum.applied,
        metadata=node.metadata_loader,
        on_registered=node.replica_manager.open_logs,
        has_opened_logs=lambda: node.replica_manager.has_opened_logs,
        is_alone=lambda: len(node.image.brokers) <= 1,
        log_line=node.log_line,
        stop=lambda reason: node.emit(StopNode(reason)),
        previous_epoch=config.previous_broker_epoch,
    )


def all_of(node: Node, registrations: Sequence[Part]) -> tuple[Part, ...]:
    """The parts that the node's roles need, in the order in which they are polled.

    `registrations` are made earlier: a controller draws its incarnation id before the broker does,
    and so the simulator's runs stay what they were.
    """
    parts: list[Part] = [
        node.quorum,
        node.discovery,
        node.linearizable_reads,
        node.due_snapshots,
        *_controller_parts(node),
        LeaderWatch(node.quorum, node.log_line),
        *registrations,
        *_broker_parts(node),
        node.delayed_operations,
        node.controller_channel,
        node.failed_leaders,
    ]
    return tuple(parts)


def _controller_parts(node: Node) -> Iterator[Part]:
    if node.active_controller is None:
        return
    if node.config.settings.kraftlog_fence_on_connection_refused:
        yield broker_probes(node, node.active_controller)
    if node.broker_lifecycle is not None:
        from kraftlog.node.broker.own_broker import OwnBroker

        yield OwnBroker(node.broker_lifecycle, node.active_controller)
    yield node.active_controller


def _broker_parts(node: Node) -> Iterator[Part]:
    if node.broker_lifecycle is None or node.group_coordinators is None:
        return
    yield node.broker_lifecycle
    yield node.replica_manager
    yield node.group_coordinators
    yield producer_expiration(node)


def publishers(node: Node) -> list[MetadataPublisher]:
    """What follows the metadata, in the order in which it acts on each change."""
    following: list[MetadataPublisher] = [
        FeatureLevels(node.metadata_loader),
        node.encoded_topics,
        node.topic_configs,
        node.client_quotas,
    ]
    if node.authorizer is not None:
        from kraftlog.node.authorization import AclPublisher

        following.append(AclPublisher(node.authorizer, node.metadata_loader))
    if node.active_controller is not None:
        from kraftlog.node.controller.unclean_elections import UncleanElections

        following.append(UncleanElections(node.counts, node.active_controller))
    if node.group_coordinators is not None:
        following.append(node.group_coordinators)
    following.append(node.replica_manager)
    if node.broker_lifecycle is not None:
        following += [node.broker_lifecycle, *file_checks(node)]
    others = [part for part in node.parts if isinstance(part, MetadataPublisher)]
    following += [part for part in others if part not in following]
    return [*following, node.producer_ids]


def file_checks(node: Node) -> list[OverriddenMinIsr]:
    """Compares what the broker's file sets and the log overrides."""
    from kraftlog.node.broker.overridden_min_isr import MIN_ISR, OverriddenMinIsr

    value = node.config.settings.texts.get(MIN_ISR)
    return [] if value is None else [OverriddenMinIsr(value, node.metadata_loader, node.log_line)]


def group_coordinators(node: Node) -> GroupCoordinators:
    """They follow the roles of their partitions."""
    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators

    coordinators = GroupCoordinators(node)
    node.replica_manager.listeners.append(coordinators)
    return coordinators


def producer_expiration(node: Node) -> ProducerExpiration:
    return ProducerExpiration(
        node.replica_manager.partitions,
        node.config.settings.producer_id_expiration_check_interval_ms,
        lambda: node.config_layers().value("producer.id.expiration.ms"),
        node.now,
    )
