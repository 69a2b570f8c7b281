"""A node logs in at its peers by the messages of SASL, and believes no false broker."""

from __future__ import annotations

from base64 import b64encode

import pytest

from kraftlog.config.sasl import SaslLogin
from kraftlog.errors import AuthenticationError
from kraftlog.node.channels import CONTROLLER_CHANNEL
from kraftlog.runner.peer_login import PeerLogin, PeerLogins
from kraftlog.sasl.scram import MAX_STORED_ITERATIONS
from kraftlog.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NONCE = "abc"


def begun(mechanism: str) -> PeerLogin:
    """A login whose handshake and first message are sent."""
    at_controllers = SaslLogin(mechanism, "broker", "secret")
    login = PeerLogins(None, at_controllers, lambda: NONCE).begin(CONTROLLER_CHANNEL)
    assert login is not None
    assert login.first() == SaslHandshakeRequest(mechanism=mechanism)
    first = login.next(SaslHandshakeResponse(error_code=0, mechanisms=(mechanism,)))
    assert isinstance(first, SaslAuthenticateRequest)
    return login


def answer(auth_bytes: bytes, *, error_code: int = 0, text: str = "") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=text, auth_bytes=auth_bytes, session_lifetime_ms=1000
    )


def test_plain_needs_one_message_and_holds_for_a_part_of_the_session() -> None:
    login = begun("PLAIN")
    assert login.next(answer(b"")) is None
    assert 0 < login.holds_ms < 1000


def test_a_refusal_is_reported_in_the_words_of_the_broker() -> None:
    with pytest.raises(AuthenticationError, match="no such user"):
        begun("PLAIN").next(answer(b"", error_code=58, text="no such user"))


@pytest.mark.parametrize("iterations", [4095, MAX_STORED_ITERATIONS + 1, 1_000_000])
def test_a_false_broker_cannot_keep_a_node_busy(iterations: int) -> None:
    """The hash of a million iterations would take the event loop half a second."""
    salt = b64encode(b"salt").decode()
    with pytest.raises(AuthenticationError, match=f"asks for {iterations} iterations"):
        begun("SCRAM-SHA-256").next(answer(f"r={NONCE}x,s={salt},i={iterations}".encode()))


def test_a_broker_that_does_not_know_the_password_is_no_peer() -> None:
    login = begun("SCRAM-SHA-256")
    salt = b64encode(b"salt").decode()
    assert login.next(answer(f"r={NONCE}x,s={salt},i=4096".encode())) is not None
    with pytest.raises(AuthenticationError, match="it is no broker of ours"):
        login.next(answer(b"v=" + b64encode(bytes(32))))
