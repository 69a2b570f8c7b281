"""Fetch 4-18: of the metadata log, of topics, or of both (Q27). Batches are sent as stored."""

from __future__ import annotations

from kraftlog.node.fetch.delayed import FEW_PARTITIONS, DelayedFetch
from kraftlog.node.fetch_sessions import FINAL_EPOCH, NO_SESSION
from kraftlog.node.handlers import metadata_topic
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.fetch_sessions import FetchSession
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest


def handle(
    node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now
) -> Iterator[int] | None:
    if request.topics and metadata_topic.try_serve(node, pending, request, now):
        return None
    if any(metadata_topic.is_metadata_topic(it.topic, it.topic_id) for it in request.topics):
        from kraftlog.node.fetch import with_metadata

        if with_metadata.try_serve(node, pending, request, now):
            return None
    return fetch_topics(node, pending, request, now)


def fetch_topics(
    node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now
) -> Iterator[int] | None:
    """Serve a fetch of topics' partitions, in its session if it has one."""
    if node.client_quotas.is_active:
        request = node.client_quotas.bounded(pending, request)
    session: FetchSession | None = None
    if request.session_epoch != FINAL_EPOCH or request.session_id != NO_SESSION:
        resumed = node.fetch_sessions.resume(request, pending.version, now)
        if isinstance(resumed, int):
            pending.respond(FetchResponse(error_code=resumed, session_id=NO_SESSION, responses=()))
            return None
        session = resumed
    if _partition_count(request, session) > FEW_PARTITIONS:
        from kraftlog.node.fetch.large import LargeFetch

        return LargeFetch(node, pending, request, session).serve(now)
    DelayedFetch(node, pending, request, session).respond_or_wait(now)
    return None


def _partition_count(request: FetchRequest, session: FetchSession | None) -> int:
    """The number of partitions that a request reads."""
    if session is not None:
        return len(session.changed)
    if len(request.topics) == 1:
        return len(request.topics[0].partitions)
    return sum([len(topic.partitions) for topic in request.topics])
