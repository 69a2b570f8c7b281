"""Fetches: sessions have only what their client may read.

A session is of the client that first uses it, and is checked again when ACLs have changed since. If
something in it is not allowed, the client is told that there is no such session; it then names all
partitions in a request of its own, which is answered without a session.
"""

from __future__ import annotations

from kraftlog.authorization.acls import Operation
from kraftlog.errors import ErrorCode
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.access.asked import Asked
    from kraftlog.node.fetch_sessions import FetchSession

#: The first version in which a follower names itself in `replica_state`.
REPLICA_STATE_SINCE = 15


def fetch(asked: Asked) -> bool:
    request, version = asked.request, asked.pending.version
    replica = request.replica_state.replica_id
    if version < REPLICA_STATE_SINCE:
        replica = request.replica_id
    if asked.pending.connection.serves == CONTROLLER:
        return asked.allows_on_cluster(Operation.CLUSTER_ACTION) or asked.refuse()
    if replica >= 0:
        if asked.allows_on_cluster(Operation.CLUSTER_ACTION):
            return True
        asked.respond(responses=[_refused(topic) for topic in request.topics])
        return False
    return _consumer(asked)


def _consumer(asked: Asked) -> bool:
    request = asked.request
    # By identity, as two topics of a request may be equal.
    denied = {id(topic) for topic in request.topics if not _allows(asked, topic)}
    # A topic that is unknown now may appear, and the client might not be allowed to read it.
    has_unknown = not all(_is_known(asked, topic) for topic in request.topics)
    if request.session_epoch not in {INITIAL_EPOCH, FINAL_EPOCH}:
        session = asked.node.fetch_sessions.get(request.session_id)
        if session is None or not (denied or has_unknown or not _may_use(asked, session)):
            return True  # the handler answers if there is no such session
        code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        asked.pending.respond(FetchResponse(error_code=code, session_id=NO_SESSION, responses=()))
        return False
    if not denied and not has_unknown:
        return True
    request.session_epoch = FINAL_EPOCH
    asked.add("responses", ())  # so that no template is made of it
    return asked.split("topics", lambda topic: id(topic) not in denied, "responses", _refused)


def _allows(asked: Asked, topic: Any) -> bool:
    name = asked.topic_name(topic.topic, topic.topic_id)
    return name is None or asked.allows_on_topic(Operation.READ, name)


def _is_known(asked: Asked, topic: Any) -> bool:
    return asked.topic_name(topic.topic, topic.topic_id) is not None


def _may_use(asked: Asked, session: FetchSession) -> bool:
    """Whether a session is the client's own, and has only what it may read."""
    client = asked.principal, asked.host
    checked = client, asked.authorizer.generation
    if session.allowed_to != checked:
        is_others = session.allowed_to is not None and session.allowed_to[0] != client
        if (
            is_others
            or session.is_follower
            or not all(
                _is_known(asked, topic) and _allows(asked, topic)
                for topic in session.topics.values()
            )
        ):
            return False
        session.allowed_to = checked
    return True


def _refused(topic: Any) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            PartitionData(
                partition_index=each.partition,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                high_watermark=-1,
                aborted_transactions=None,
                records=None,
            )
            for each in topic.partitions
        ],
    )
