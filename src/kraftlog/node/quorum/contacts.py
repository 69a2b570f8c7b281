"""`Contacts`: whether the other nodes of the quorum respond, for the operator."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    Address = tuple[str, int]


class Contacts:
    """The outcome of the last request to each peer: "" for a response, else why there was none."""

    def __init__(self) -> None:
        #: By peer: the outcome, and the address that was tried if there was no response.
        self._outcomes: dict[int, tuple[str, Address | None]] = {}

    def answered(self, peer: int) -> None:
        self._outcomes[peer] = "", None

    def failed(self, peer: int, address: Address | None, why: str) -> None:
        self._outcomes[peer] = why or "no response", address

    def outcome(self, peer: int) -> tuple[str, Address | None] | None:
        return self._outcomes.get(peer)

    def forget(self) -> None:
        """Forget all outcomes: they date from before the leader was lost, and do not explain it."""
        self._outcomes.clear()
