"""Fetch 4-18: of the metadata log, of topics (`delayed`), or of both (Q27)."""

from __future__ import annotations

from kraftlog.node.fetch import delayed
from kraftlog.node.handlers import metadata_topic
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    return delayed.handle(node, pending, request, now)
