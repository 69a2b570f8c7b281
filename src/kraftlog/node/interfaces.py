"""The interface of the node that handlers and the fast path use; for type checkers alone.

The node imports the modules that use it, or finds them by name (handlers, so that it imports only
those of requests that arrive): so they cannot import the node.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Protocol

    from kraftlog.authorization.authorizer import Authorizer
    from kraftlog.config.delegation_tokens import TokenConfig
    from kraftlog.config.layers import ConfigLayers
    from kraftlog.logstate.voters import Endpoint, Voter
    from kraftlog.metadata.image import Image
    from kraftlog.node.broker.controller_channel import ControllerChannel
    from kraftlog.node.broker.cordoned_directories import CordonedDirectories
    from kraftlog.node.broker.failed_leaders import FailedLeaders
    from kraftlog.node.broker.producer_ids import ProducerIds
    from kraftlog.node.client_quotas import ClientQuotas
    from kraftlog.node.config import BrokerAddress, NodeConfig
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.counts import Counts
    from kraftlog.node.delayed_operations import DelayedOperation
    from kraftlog.node.denials import Denials
    from kraftlog.node.encoded_topics import EncodedTopics
    from kraftlog.node.fetch_sessions import FetchSessions
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.quorum.discovery import Discovery
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.node.quorum.linearizable_reads import LinearizableReads
    from kraftlog.node.quorum.metadata_fetches import MetadataFetches
    from kraftlog.ports.logs import LogReader
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.replication.topic_configs import TopicConfigs
    from kraftlog.types import Buffer, Now

    class SlicedWork(Protocol):
        """Runs a request that takes many turns."""

        def run(
            self, pending: PendingResponse, steps: Iterator[int], request: Any = None
        ) -> None: ...

    class ServingNode(Protocol):
        """A node that serves requests."""

        needs_poll: bool
        #: Decides who may do what; None: everyone may do everything.
        authorizer: Authorizer | None
        denials: Denials
        #: None: there are no delegation tokens.
        delegation_tokens: TokenConfig | None

        @property
        def config(self) -> NodeConfig: ...
        @property
        def config_layers(self) -> Callable[[], ConfigLayers]: ...
        @property
        def client_quotas(self) -> ClientQuotas: ...
        @property
        def cordoned_directories(self) -> CordonedDirectories: ...
        @property
        def topic_configs(self) -> TopicConfigs: ...
        @property
        def image(self) -> Image: ...
        @property
        def failed_leaders(self) -> FailedLeaders: ...
        @property
        def encoded_topics(self) -> EncodedTopics: ...
        @property
        def cluster_id(self) -> str | None: ...
        @property
        def now(self) -> Now: ...
        @property
        def counts(self) -> Counts: ...
        @property
        def sliced(self) -> SlicedWork: ...
        @property
        def logs(self) -> LogReader: ...
        @property
        def replica_manager(self) -> ReplicaManager: ...
        @property
        def fetch_sessions(self) -> FetchSessions: ...
        @property
        def max_fetch_bytes(self) -> int: ...
        @property
        def quorum(self) -> QuorumDriver: ...
        @property
        def discovery(self) -> Discovery: ...
        @property
        def linearizable_reads(self) -> LinearizableReads: ...
        @property
        def metadata_fetches(self) -> MetadataFetches: ...
        @property
        def active_controller(self) -> ActiveController | None: ...
        @property
        def controller_channel(self) -> ControllerChannel: ...
        @property
        def group_coordinators(self) -> GroupCoordinators | None: ...
        @property
        def producer_ids(self) -> ProducerIds: ...

        def broker_epoch(self) -> int: ...
        def endpoints_of(self, voter: Voter) -> Sequence[Endpoint | BrokerAddress]: ...
        def emit(self, effect: Any) -> None: ...
        def frame(
            self, pending: PendingResponse, buffer: Buffer, pos: int, end: int, now: Now
        ) -> None: ...
        def wait(self, operation: DelayedOperation, deadline_ms: int) -> None: ...
        def wait_for_ms(self, operation: DelayedOperation, timeout_ms: int) -> None: ...
