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
    from kraftlog.node.templates.request_templates import AddTemplate
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


def _all_versions(key: int, handled_by: str = "", template: str = "") -> ServedApi:
    api = APIS[key]
    return ServedApi(key, handled_by or f"handlers.{api.module}", api.first, api.last, template)


SERVED = {
    served.key: served
    for served in (
        # If the advertised minimum is 3, some clients turn compression off; requests of
        # versions 0 to 2 are refused all the same.
        ServedApi(
            ApiKey.PRODUCE, "produce.handler", 0, APIS[ApiKey.PRODUCE].last, "produce.template"
        ),
        _all_versions(ApiKey.FETCH, "fetch.handler", "fetch.template"),
        _all_versions(ApiKey.LIST_OFFSETS),
        _all_versions(ApiKey.DESCRIBE_PRODUCERS),
        _all_versions(ApiKey.DESCRIBE_LOG_DIRS),
        _all_versions(ApiKey.ALTER_REPLICA_LOG_DIRS),
        _all_versions(ApiKey.OFFSET_FOR_LEADER_EPOCH),
        _all_versions(ApiKey.DELETE_RECORDS),
        _all_versions(ApiKey.METADATA),
        _all_versions(ApiKey.API_VERSIONS),
        _all_versions(ApiKey.VOTE, "handlers.quorum"),
        _all_versions(ApiKey.BEGIN_QUORUM_EPOCH, "handlers.quorum"),
        _all_versions(ApiKey.END_QUORUM_EPOCH, "handlers.quorum"),
        _all_versions(ApiKey.FETCH_SNAPSHOT, "handlers.quorum"),
        _all_versions(ApiKey.READ_OFFSET, "handlers.quorum"),
        _all_versions(ApiKey.DISCOVER_BROKERS),
        _all_versions(ApiKey.ADD_RAFT_VOTER, "handlers.voters"),
        _all_versions(ApiKey.REMOVE_RAFT_VOTER, "handlers.voters"),
        _all_versions(ApiKey.UPDATE_RAFT_VOTER, "handlers.voters"),
        _all_versions(ApiKey.ENVELOPE),
        _all_versions(ApiKey.CREATE_TOPICS, "handlers.forwarding"),
        _all_versions(ApiKey.DELETE_TOPICS, "handlers.forwarding"),
        _all_versions(ApiKey.CREATE_PARTITIONS, "handlers.forwarding"),
        _all_versions(ApiKey.REMOVE_PARTITIONS, "handlers.forwarding"),
        _all_versions(ApiKey.INCREMENTAL_ALTER_CONFIGS, "handlers.forwarding"),
        _all_versions(ApiKey.ALTER_CONFIGS, "handlers.forwarding"),
        _all_versions(ApiKey.UPDATE_FEATURES, "handlers.forwarding"),
        _all_versions(ApiKey.UNREGISTER_BROKER, "handlers.forwarding"),
        _all_versions(ApiKey.UNREGISTER_CONTROLLER, "handlers.forwarding"),
        _all_versions(ApiKey.BROKER_REGISTRATION, "handlers.forwarding"),
        _all_versions(ApiKey.BROKER_HEARTBEAT, "handlers.forwarding"),
        _all_versions(ApiKey.CONTROLLER_REGISTRATION, "handlers.forwarding"),
        _all_versions(ApiKey.ALLOCATE_PRODUCER_IDS, "handlers.forwarding"),
        _all_versions(ApiKey.ALTER_PARTITION, "handlers.forwarding"),
        _all_versions(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "handlers.forwarding"),
        _all_versions(ApiKey.ELECT_LEADERS, "handlers.forwarding"),
        _all_versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "handlers.reassignments"),
        _all_versions(ApiKey.LIST_PARTITION_REASSIGNMENTS, "handlers.forwarding"),
        _all_versions(ApiKey.DESCRIBE_CLUSTER),
        _all_versions(ApiKey.DESCRIBE_TOPIC_PARTITIONS),
        _all_versions(ApiKey.DESCRIBE_QUORUM),
        _all_versions(ApiKey.DESCRIBE_CONFIGS),
        _all_versions(ApiKey.LIST_CONFIG_RESOURCES),
        _all_versions(ApiKey.FIND_COORDINATOR),
        _all_versions(ApiKey.JOIN_GROUP, "handlers.group_members"),
        _all_versions(ApiKey.SYNC_GROUP, "handlers.group_members"),
        _all_versions(ApiKey.HEARTBEAT, "handlers.group_members"),
        _all_versions(ApiKey.LEAVE_GROUP, "handlers.group_members"),
        _all_versions(ApiKey.OFFSET_COMMIT, "handlers.group_members"),
        _all_versions(ApiKey.OFFSET_DELETE, "handlers.group_members"),
        _all_versions(ApiKey.OFFSET_FETCH),
        _all_versions(ApiKey.LIST_GROUPS, "handlers.group_admin"),
        _all_versions(ApiKey.DESCRIBE_GROUPS, "handlers.group_admin"),
        _all_versions(ApiKey.DELETE_GROUPS, "handlers.group_admin"),
        _all_versions(ApiKey.DESCRIBE_ACLS, "handlers.security"),
        _all_versions(ApiKey.CREATE_ACLS, "handlers.security"),
        _all_versions(ApiKey.DELETE_ACLS, "handlers.security"),
        _all_versions(ApiKey.CREATE_DELEGATION_TOKEN, "handlers.security"),
        _all_versions(ApiKey.RENEW_DELEGATION_TOKEN, "handlers.security"),
        _all_versions(ApiKey.EXPIRE_DELEGATION_TOKEN, "handlers.security"),
        _all_versions(ApiKey.DESCRIBE_DELEGATION_TOKEN, "handlers.security"),
        _all_versions(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "handlers.security"),
        _all_versions(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "handlers.security"),
        _all_versions(ApiKey.DESCRIBE_CLIENT_QUOTAS, "handlers.client_quotas"),
        _all_versions(ApiKey.ALTER_CLIENT_QUOTAS, "handlers.client_quotas"),
        # Version 6 adds two-phase commit, which is not supported.
        ServedApi(ApiKey.INIT_PRODUCER_ID, "handlers.init_producer_id", 0, 5),
    )
}

_handlers: dict[int, Handler] = {}
_adders: dict[int, AddTemplate] = {}


def served_on(listener: int) -> list[ServedApi]:
    """The APIs advertised on a listener of this kind (BROKER or CONTROLLER)."""
    return [served for served in SERVED.values() if APIS[served.key].listeners & listener]


def handler(key: int) -> Handler:
    """The handler of a served API, imported if necessary."""
    handle = _handlers.get(key)
    if handle is None:
        handle = _handlers[key] = _module(SERVED[key].handler).handle
    return handle


def adder_of_templates(key: int) -> AddTemplate | None:
    """What adds templates of an API's repeated requests, imported if necessary."""
    add = _adders.get(key)
    if add is None and SERVED[key].template:
        add = _adders[key] = _module(SERVED[key].template).add_template
    return add


def _module(name: str) -> Any:
    return import_module(f"kraftlog.node.{name}")
