"""Contexts of OpenSSL, by Kafka's settings."""

from __future__ import annotations

import os
import ssl
import time

from kraftlog.config.tls import KEYSTORE, TRUSTSTORE
from kraftlog.errors import ConfigError
from kraftlog.tls.certificates import parse_certificate
from kraftlog.tls.stores import der_of, read_store
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.config.tls import TlsSettings
    from kraftlog.tls.certificates import Certificate

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for connections to a listener; raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_names
    _restrict(context, settings)
    _load_authorities(context, settings)
    load_own_certificate(context, settings)
    return context


def server_context(settings: TlsSettings, now_s: float) -> tuple[ssl.SSLContext, Certificate]:
    """A context for a listener, and the listener's own certificate; raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _restrict(context, settings)
    certificate = load_own_certificate(context, settings)
    if certificate is None:
        raise ConfigError(
            f"{settings.name(f'{KEYSTORE}.location')} is not set: a listener with TLS needs a key "
            "and its certificates"
        )
    _refuse_invalid(certificate, settings, now_s)
    context.verify_mode = _CLIENT_AUTH[settings.text("ssl.client.auth")]
    if context.verify_mode != ssl.CERT_NONE:
        _load_authorities(context, settings)
    return context, certificate


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[name] for name in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    suites = settings.suites_of_tls_1_2
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError:
            raise ConfigError(
                f"{settings.shown('ssl.cipher.suites')}: OpenSSL has none of these suites"
            ) from None


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    store = read_store(settings, TRUSTSTORE)
    if store is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata="\n".join(store.certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{_source(settings, TRUSTSTORE)}: {_reason(error)}") from None


def load_own_certificate(context: ssl.SSLContext, settings: TlsSettings) -> Certificate | None:
    """Load the key store, if there is one; returns its own certificate."""
    store = read_store(settings, KEYSTORE)
    if store is None:
        return None
    # OpenSSL reads keys from files alone. This one is in memory, and no other process has it.
    fd = os.memfd_create("kraftlog", os.MFD_CLOEXEC)
    try:
        os.write(fd, "\n".join([store.key, *store.certificates, ""]).encode())
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(
            f"/proc/self/fd/{fd}", password=settings.text("ssl.key.password").encode()
        )
        return parse_certificate(der_of(store.certificates[0]))
    except (ssl.SSLError, ValueError) as error:
        why = _reason(error, store.key)
        raise ConfigError(f"{_source(settings, KEYSTORE)}: {why}") from None
    finally:
        os.close(fd)


def _refuse_invalid(certificate: Certificate, settings: TlsSettings, now_s: float) -> None:
    if now_s > certificate.not_after_s:
        raise ConfigError(
            f"{_source(settings, KEYSTORE)}: the certificate of {certificate.subject} expired on "
            f"{utc(certificate.not_after_s)}"
        )
    if now_s < certificate.not_before_s:
        raise ConfigError(
            f"{_source(settings, KEYSTORE)}: the certificate of {certificate.subject} is not valid "
            f"before {utc(certificate.not_before_s)}"
        )


def utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _source(settings: TlsSettings, store: str) -> str:
    """The key that names a store, for errors."""
    if settings.is_given(f"{store}.location"):
        return settings.shown(f"{store}.location")
    return settings.name(
        f"{store}.certificate.chain" if store == KEYSTORE else f"{store}.certificates"
    )


def _reason(error: Exception, key: str = "") -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the first certificate"
    if "ENCRYPTED" in key:
        return "ssl.key.password does not decrypt the key"
    return f"it can't be read as PEM ({(reason or 'malformed').replace('_', ' ').lower()})"
