"""Envelope: a client's request that a broker forwards to the controller."""

from __future__ import annotations

from kraftlog.wire.schema import Message, binary, int16


class EnvelopeRequest(Message, versions=(0, 0), flexible=0):
    request_data: bytes = binary()
    request_principal: bytes | None = binary(nullable=True)
    client_host_address: bytes = binary()


class EnvelopeResponse(Message, versions=(0, 0), flexible=0):
    response_data: bytes | None = binary(nullable=True, default=None)
    error_code: int = int16()
