"""SaslHandshake: choose a SASL mechanism."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class SaslHandshakeRequest(Message, versions=(0, 1)):
    mechanism: str = string()


class SaslHandshakeResponse(Message, versions=(0, 1)):
    error_code: int = int16()
    mechanisms: Sequence[str] = array("string")
