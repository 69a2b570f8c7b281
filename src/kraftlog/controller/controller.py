"""`Controller`: dispatches requests to decisions and tracks proposed and committed records.

For each request, the host of the active controller does:

    decision = yield from controller.decide_in_steps(api_key, request, now, next_offset)
    if decision.records: encode them; controller.state.propose_in_steps(batches, first_offset);
                         append them to the log; send the response once the last one is committed
    otherwise:           send the response once all earlier proposals are committed

A decision may take many steps. Decisions are made one at a time, so no decision changes the state
that another one is based on.

For each committed batch, every controller calls `replay_in_steps`. A new leader calls `activate`
once its log is committed and applied; a former leader calls `resign`.
"""

from __future__ import annotations

from importlib import import_module

from kraftlog.controller.activation import activation_records
from kraftlog.controller.brokers import decide_fence_stale
from kraftlog.controller.context import Context
from kraftlog.controller.decision import Decision
from kraftlog.controller.elections import decide_preferred_elections, decide_unclean_elections
from kraftlog.controller.sessions import BrokerSessions
from kraftlog.controller.state import ControllerState
from kraftlog.logstate.voters import VoterSet
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any

    from kraftlog.controller.context import ControllerConfig
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.failure_evidence import FailureEvidence
    from kraftlog.controller.placement import Rng
    from kraftlog.metadata.image import Image
    from kraftlog.quotas.mutation_quota import Mutations
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.schema import Message

#: Module and function by API; modules are imported at first use.
DECISIONS = {
    ApiKey.CREATE_TOPICS: ("topics", "decide_create_topics"),
    ApiKey.DELETE_TOPICS: ("topics", "decide_delete_topics"),
    ApiKey.CREATE_PARTITIONS: ("partitions", "decide_create_partitions"),
    ApiKey.REMOVE_PARTITIONS: ("partitions", "decide_remove_partitions"),
    ApiKey.ELECT_LEADERS: ("elections", "decide_elect_leaders"),
    ApiKey.ALTER_PARTITION: ("isr", "decide_alter_partition"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("reassignment", "decide_alter_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("reassignment", "decide_list_reassignments"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ("directories", "decide_assign_replicas"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("configs", "decide_incremental_alter_configs"),
    ApiKey.ALTER_CONFIGS: ("configs", "decide_alter_configs"),
    ApiKey.UPDATE_FEATURES: ("features", "decide_update_features"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("scram", "decide_alter_scram"),
    ApiKey.CREATE_ACLS: ("acls", "decide_create_acls"),
    ApiKey.DELETE_ACLS: ("acls", "decide_delete_acls"),
    ApiKey.CREATE_DELEGATION_TOKEN: ("delegation_tokens", "decide_create_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: ("delegation_tokens", "decide_renew_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ("delegation_tokens", "decide_expire_token"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("client_quotas", "decide_alter_client_quotas"),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("producer_ids", "decide_allocate_producer_ids"),
    ApiKey.BROKER_REGISTRATION: ("brokers", "decide_register_broker"),
    ApiKey.BROKER_HEARTBEAT: ("brokers", "decide_broker_heartbeat"),
    ApiKey.UNREGISTER_BROKER: ("brokers", "decide_unregister_broker"),
    ApiKey.CONTROLLER_REGISTRATION: ("brokers", "decide_register_controller"),
    ApiKey.UNREGISTER_CONTROLLER: ("brokers", "decide_unregister_controller"),
}


#: Backoff of periodic work after a refused decision.
AFTER_REFUSAL_MS = 100


class Controller:
    """Replays the log on every controller and decides on the active one."""

    def __init__(
        self,
        config: ControllerConfig,
        *,
        rng: Rng,
        new_id: Callable[[], Uuid],
        static_config: Mapping[str, str],
        voters: Callable[[], VoterSet] = VoterSet,
        reported_voters: Callable[[], VoterSet] | None = None,
        missing_report_reasons: Callable[[], Mapping[int, str]] = dict,
    ) -> None:
        """`voters` returns the quorum's voter set.

        The set is in control records, which the controller does not replay. `reported_voters`
        returns the set with what voters have reported to the leader but no VotersRecord holds yet,
        and `missing_report_reasons` why directory ids are still unknown in it, by voter id.
        """
        self.state = ControllerState(static_config, _secret_of(config))
        self.sessions = BrokerSessions(config.session_timeout_ms)
        self.active = False
        #: Periodic work while active: next time, function, interval.
        self._periodic_work: dict[
            str, tuple[int, Callable[[ControllerState, int], Sequence[Message]], int]
        ] = {}
        self._context = Context(
            config,
            static_config,
            self.sessions,
            rng,
            new_id,
            voters,
            reported_voters or voters,
            missing_report_reasons,
        )
        self._decisions: dict[
            int, Callable[[ControllerState, Any, Context], Decision | DecisionInSteps]
        ] = {}

    # The log -------------------------------------------------------------------------------------

    def replay_in_steps(
        self, records: Sequence[Message], last_offset: int
    ) -> Generator[int, None, None]:
        """Replay committed records up to this offset, unless they were proposed here."""
        self._context.committed_offset = last_offset
        self.state.trim_undo_log(last_offset)
        if last_offset > self.state.proposed_to:
            yield from self.state.replay_in_steps(records)

    def install_snapshot(self, image: Image) -> None:
        """Replace the state with the image of a snapshot; this node is not the leader."""
        self.resign()
        self.state = ControllerState.copy_of(
            image, self._context.static_config, _secret_of(self._context.config)
        )

    def set_cluster_id(self, cluster_id: str | None) -> None:
        """Set the cluster id that was found in the log."""
        if cluster_id is not None:
            self._context.config = self._context.config.replace(cluster_id=cluster_id)

    def activate(self, bootstrap: Sequence[Message], now: Now) -> Decision:
        """Become the active controller, once the log up to here is committed and applied."""
        self.active = True
        state = self.state
        brokers = [(b.id, b.epoch) for b in state.brokers.values() if state.needs_session(b)]
        self.sessions.begin(brokers, now.monotonic_ms)
        for broker in state.brokers.values():
            if broker.in_controlled_shutdown and not broker.fenced:
                # The others know the new leaders once they are as far as this node.
                self.sessions.begin_shutdown(broker.id, self._context.committed_offset)
        self.evidence.begin()
        config, now_ms = self._context.config, now.monotonic_ms
        self._periodic_work = {}
        if config.rebalance_leaders:
            interval_ms = config.rebalance_interval_ms
            self._periodic_work["balance"] = (
                now_ms + interval_ms,
                decide_preferred_elections,
                interval_ms,
            )
        interval_ms = config.unclean_interval_ms
        self._periodic_work["unclean"] = (
            now_ms + interval_ms,
            decide_unclean_elections,
            interval_ms,
        )
        if config.tokens is not None:
            interval_ms = config.tokens.check_interval_ms
            self._periodic_work["tokens"] = (now_ms + interval_ms, self._end_tokens, interval_ms)
        return Decision(
            activation_records(self.state, bootstrap, self._context.static_config), None
        )

    def resign(self) -> None:
        """Resign and undo all uncommitted decisions (V14)."""
        self.active = False
        self.state.undo_uncommitted()
        self.sessions.begin((), 0)

    # Deciding ------------------------------------------------------------------------------------

    def decide_in_steps(
        self,
        api_key: int,
        request: Message,
        now: Now,
        next_offset: int,
        arrived_ms: int | None = None,
        principal: str = "",
        mutations: Mutations | None = None,
    ) -> DecisionInSteps:
        """Decide on a request; `next_offset` is the expected offset of its first record.

        `principal`: that of the client, for the decisions that depend on it. `mutations`: what the
        quota of the client permits.
        """
        self._context.begin(now, next_offset, arrived_ms, principal, mutations)
        decision = self._decision_function(api_key)(self.state, request, self._context)
        return decision if isinstance(decision, Decision) else (yield from decision)

    @property
    def depends_on_offset(self) -> bool:
        """Whether the last decision depends on its offset."""
        return self._context.is_offset_used

    def _decision_function(
        self, api_key: int
    ) -> Callable[[ControllerState, Any, Context], Decision | DecisionInSteps]:
        decide = self._decisions.get(api_key)
        if decide is None:
            module, function = DECISIONS[api_key]
            decide = getattr(import_module(f"kraftlog.controller.{module}"), function)
            self._decisions[api_key] = decide
        return decide

    def poll(self, now: Now, next_offset: int) -> Decision | None:
        """The next decision of scheduled work; call it until it returns None."""
        if not self.active:
            return None
        self._context.begin(now, next_offset)
        records = decide_fence_stale(self.state, self._context) or self._run_periodic_work(now)
        return Decision(list(records), None) if records else None

    def proposal_failed(self, now: Now) -> None:
        """Handle a decision that could not be proposed.

        A broker whose session the decision has ended (to fence or unregister it, for example) gets
        a new session: without one, the broker would never be fenced. Periodic work backs off;
        otherwise it would be decided and refused again without end.
        """
        self.sessions.forget_unregistered(
            {broker.id: broker.epoch for broker in self.state.brokers.values()}
        )
        for broker in self.state.brokers.values():
            if self.state.needs_session(broker) and self.sessions.get(broker.id) is None:
                self.sessions.touch(broker.id, broker.epoch, now.monotonic_ms)
        soon_ms = now.monotonic_ms + AFTER_REFUSAL_MS
        for name, (due, decide, interval_ms) in self._periodic_work.items():
            self._periodic_work[name] = (max(due, soon_ms), decide, interval_ms)

    def _run_periodic_work(self, now: Now) -> Sequence[Message]:
        """Run periodic work that is due; work that was cut short is due again at once."""
        at_most = self._context.config.elections_at_once
        for name, (due, decide, interval_ms) in self._periodic_work.items():
            if due <= now.monotonic_ms:
                records = decide(self.state, at_most)
                wait_ms = 0 if len(records) == at_most else interval_ms
                self._periodic_work[name] = (now.monotonic_ms + wait_ms, decide, interval_ms)
                if records:
                    return records
        return ()

    def _end_tokens(self, state: ControllerState, at_most: int) -> Sequence[Message]:
        from kraftlog.controller.delegation_tokens import expired_tokens

        return expired_tokens(state, self._context.now.wall_ms, at_most)

    def deadline(self) -> int | None:
        """The next deadline for `poll`, in monotonic milliseconds."""
        if not self.active:
            return None
        dues = [due for due, _, _ in self._periodic_work.values()]
        session = self.sessions.deadline()
        return min(dues if session is None else [session, *dues], default=None)

    def take_log_lines(self) -> list[str]:
        """Log lines for the operator."""
        lines = self.sessions.log_lines + self.evidence.log_lines
        self.sessions.log_lines.clear()
        self.evidence.log_lines.clear()
        return lines

    @property
    def evidence(self) -> FailureEvidence:
        return self._context.evidence

    def note_broker_down(self, broker_id: int) -> None:
        """End the session of a broker whose process is proved to be down."""
        self.sessions.expire(broker_id)

    def note_connection_refused(self, broker_id: int, epoch: int, ended_ms: int, now: Now) -> None:
        """Expire the session of a broker whose connection has ended and that refuses a new one.

        Only if `FailureEvidence` believes it, and only if `epoch` is still the broker's.
        """
        brokers = self.state.brokers
        if self.evidence.believe(brokers, broker_id, epoch, ended_ms, now.monotonic_ms):
            self.sessions.expire(broker_id)


def _secret_of(config: ControllerConfig) -> str:
    """The key of the HMACs of delegation tokens; empty: there are none."""
    return "" if config.tokens is None else config.tokens.secret
