"""`RefusedRequestError`: why a request about a consumer group is refused."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, KraftlogError


class RefusedRequestError(KraftlogError):
    """The request changes nothing; its response has the code and the message, Kafka's words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unknown_member(member_id: str, group_id: str) -> RefusedRequestError:
    what = f"Member {member_id} is not a member of group {group_id}."
    return RefusedRequestError(ErrorCode.UNKNOWN_MEMBER_ID, what)
