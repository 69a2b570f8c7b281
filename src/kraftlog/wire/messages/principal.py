"""The principal in an Envelope."""

from __future__ import annotations

from kraftlog.wire.schema import Message, boolean, string


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
