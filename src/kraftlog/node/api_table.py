"""The served APIs, their handlers and the advertised versions.

A handler module is imported at the first request of its API, to start fast. An API that is not in
this table is not advertised; a request for it closes the connection, as in Kafka. APIs that Kafka
does not have are advertised to kraftlog's own clients and nodes only.
"""

from __future__ import annotations

from importlib import import_module

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.templates.request_templates import MakerOf
    from kraftlog.types import Now

    #: May return a generator for sliced work: see `sliced`.
    Handler = Callable[[ServingNode, PendingResponse, Any, Now], Iterator[int] | None]


class ServedApi(Value):
    """An API and its advertised versions, `first` to `last`.

    Other versions are refused, as are advertised ones that have no schema here (Produce 0 to 2).
    """

    key: int
    #: The module in `kraftlog.node` that has the handler.
    handler: str
    first: int
    last: int
    #: The module in `kraftlog.node` that makes templates of repeated requests; empty: none does.
    template: str = ""

    @property
    def versions(self) -> range:
        """Versions that are advertised and have a schema."""
        return range(max(self.first, APIS[self.key].first), self.last + 1)


def _all_versions(key: int, handled_by: str = "") -> ServedApi:
    """An API with all its versions, and a handler in `handlers`."""
    api = APIS[key]
    return ServedApi(key, f"handlers.{handled_by or api.module}", api.first, api.last)


SERVED = {
    served.key: served
    for served in (
        # If the advertised minimum is 3, some clients turn compression off; requests of
        # versions 0 to 2 are refused all the same.
        ServedApi(
            ApiKey.PRODUCE, "produce.handler", 0, APIS[ApiKey.PRODUCE].last, "produce.template"
        ),
        ServedApi(
            ApiKey.FETCH,
            "fetch.handler",
            APIS[ApiKey.FETCH].first,
            APIS[ApiKey.FETCH].last,
            "fetch.template",
        ),
        _all_versions(ApiKey.LIST_OFFSETS),
        _all_versions(ApiKey.DESCRIBE_PRODUCERS),
        _all_versions(ApiKey.DESCRIBE_LOG_DIRS),
        _all_versions(ApiKey.ALTER_REPLICA_LOG_DIRS),
        _all_versions(ApiKey.OFFSET_FOR_LEADER_EPOCH),
        _all_versions(ApiKey.DELETE_RECORDS),
        _all_versions(ApiKey.METADATA),
        _all_versions(ApiKey.API_VERSIONS),
        _all_versions(ApiKey.SASL_HANDSHAKE, "sasl"),
        _all_versions(ApiKey.SASL_AUTHENTICATE, "sasl"),
        _all_versions(ApiKey.VOTE, "quorum"),
        _all_versions(ApiKey.BEGIN_QUORUM_EPOCH, "quorum"),
        _all_versions(ApiKey.END_QUORUM_EPOCH, "quorum"),
        _all_versions(ApiKey.FETCH_SNAPSHOT, "quorum"),
        _all_versions(ApiKey.READ_OFFSET, "quorum"),
        _all_versions(ApiKey.DISCOVER_BROKERS),
        _all_versions(ApiKey.ADD_RAFT_VOTER, "voters"),
        _all_versions(ApiKey.REMOVE_RAFT_VOTER, "voters"),
        _all_versions(ApiKey.UPDATE_RAFT_VOTER, "voters"),
        _all_versions(ApiKey.ENVELOPE),
        _all_versions(ApiKey.CREATE_TOPICS, "forwarding"),
        _all_versions(ApiKey.DELETE_TOPICS, "forwarding"),
        _all_versions(ApiKey.CREATE_PARTITIONS, "forwarding"),
        _all_versions(ApiKey.REMOVE_PARTITIONS, "forwarding"),
        _all_versions(ApiKey.INCREMENTAL_ALTER_CONFIGS, "forwarding"),
        _all_versions(ApiKey.ALTER_CONFIGS, "forwarding"),
        _all_versions(ApiKey.UPDATE_FEATURES, "forwarding"),
        _all_versions(ApiKey.UNREGISTER_BROKER, "forwarding"),
        _all_versions(ApiKey.UNREGISTER_CONTROLLER, "forwarding"),
        _all_versions(ApiKey.BROKER_REGISTRATION, "forwarding"),
        _all_versions(ApiKey.BROKER_HEARTBEAT, "forwarding"),
        _all_versions(ApiKey.CONTROLLER_REGISTRATION, "forwarding"),
        _all_versions(ApiKey.ALLOCATE_PRODUCER_IDS, "forwarding"),
        _all_versions(ApiKey.ALTER_PARTITION, "forwarding"),
        _all_versions(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "forwarding"),
        _all_versions(ApiKey.ELECT_LEADERS, "forwarding"),
        _all_versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "reassignments"),
        _all_versions(ApiKey.LIST_PARTITION_REASSIGNMENTS, "forwarding"),
        _all_versions(ApiKey.DESCRIBE_CLUSTER),
        _all_versions(ApiKey.DESCRIBE_TOPIC_PARTITIONS),
        _all_versions(ApiKey.DESCRIBE_QUORUM),
        _all_versions(ApiKey.DESCRIBE_CONFIGS),
        _all_versions(ApiKey.LIST_CONFIG_RESOURCES),
        _all_versions(ApiKey.FIND_COORDINATOR),
        _all_versions(ApiKey.JOIN_GROUP, "group_members"),
        _all_versions(ApiKey.SYNC_GROUP, "group_members"),
        _all_versions(ApiKey.HEARTBEAT, "group_members"),
        _all_versions(ApiKey.LEAVE_GROUP, "group_members"),
        _all_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_groups"),
        _all_versions(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_groups"),
        _all_versions(ApiKey.OFFSET_COMMIT, "group_members"),
        _all_versions(ApiKey.OFFSET_DELETE, "group_members"),
        _all_versions(ApiKey.OFFSET_FETCH),
        _all_versions(ApiKey.LIST_GROUPS, "group_admin"),
        _all_versions(ApiKey.DESCRIBE_GROUPS, "group_admin"),
        _all_versions(ApiKey.DELETE_GROUPS, "group_admin"),
        _all_versions(ApiKey.DESCRIBE_ACLS),
        _all_versions(ApiKey.CREATE_ACLS, "forwarding"),
        _all_versions(ApiKey.DELETE_ACLS, "forwarding"),
        _all_versions(ApiKey.CREATE_DELEGATION_TOKEN, "delegation_tokens"),
        _all_versions(ApiKey.RENEW_DELEGATION_TOKEN, "delegation_tokens"),
        _all_versions(ApiKey.EXPIRE_DELEGATION_TOKEN, "delegation_tokens"),
        _all_versions(ApiKey.DESCRIBE_DELEGATION_TOKEN, "delegation_tokens"),
        _all_versions(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
        _all_versions(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "forwarding"),
        _all_versions(ApiKey.DESCRIBE_CLIENT_QUOTAS, "client_quotas"),
        _all_versions(ApiKey.ALTER_CLIENT_QUOTAS, "client_quotas"),
        # Version 6 adds two-phase commit, which is not supported.
        ServedApi(ApiKey.INIT_PRODUCER_ID, "handlers.init_producer_id", 0, 5),
    )
}

_handlers: dict[int, Handler] = {}
_template_makers: dict[int, MakerOf] = {}


def served_on(listener: int) -> list[ServedApi]:
    """The APIs advertised on a listener of this kind (BROKER or CONTROLLER)."""
    return [served for served in SERVED.values() if APIS[served.key].listeners & listener]


def handler(key: int) -> Handler:
    """The handler of a served API, imported if necessary."""
    handle = _handlers.get(key)
    if handle is None:
        handle = _handlers[key] = _module(SERVED[key].handler).handle
    return handle


def template_maker(key: int) -> MakerOf:
    """What finds the makers of templates of an API that has them, imported if necessary."""
    maker_of = _template_makers.get(key)
    if maker_of is None:
        maker_of = _template_makers[key] = _module(SERVED[key].template).maker_of
    return maker_of


def _module(name: str) -> Any:
    return import_module(f"kraftlog.node.{name}")
