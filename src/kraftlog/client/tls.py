"""TLS for the client: a context by the properties of Kafka's clients, and the handshake."""

from __future__ import annotations

import os
import ssl
from contextlib import contextmanager
from functools import lru_cache
from tempfile import NamedTemporaryFile

from kraftlog.errors import AuthenticationError, ConfigError, UnreachableError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

_VERSIONS = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}
_STORES = ("truststore", "keystore")


def check(properties: Mapping[str, str]) -> None:
    """Refuse what cannot be used, before the first connection."""
    for store in _STORES:
        _check_store(properties, store)
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() not in {
        "https",
        "",
    }:
        raise ConfigError("ssl.endpoint.identification.algorithm: expected https, or nothing")
    _versions(properties)


def _check_store(properties: Mapping[str, str], store: str) -> None:
    location = properties.get(f"ssl.{store}.location")
    inline = "certificates" if store == "truststore" else "certificate.chain"
    if not location and f"ssl.{store}.{inline}" not in properties:
        return
    kind = (properties.get(f"ssl.{store}.type") or _type_by_name(location or ".pem")).upper()
    if kind == "PEM":
        return
    advice = (
        f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12 "
        f"-deststoretype PKCS12, then openssl pkcs12 -in store.p12 -out store.pem"
        if kind == "JKS"
        else f"openssl pkcs12 -in {location} -out store.pem"
    )
    raise ConfigError(
        f"ssl.{store}.type={kind} is not supported: convert the file ({advice}), and set "
        f"ssl.{store}.type=PEM"
    )


def _type_by_name(location: str) -> str:
    """Without a type Kafka's clients expect JKS; files of PEM are known by their names here."""
    return "PEM" if location.endswith((".pem", ".crt", ".cer")) else "JKS"


def _versions(properties: Mapping[str, str]) -> list[ssl.TLSVersion]:
    key = "ssl.enabled.protocols"
    names = properties.get(key) or properties.get("ssl.protocol") or ",".join(_VERSIONS)
    versions = [_VERSIONS.get(name.strip().upper()) for name in names.split(",")]
    known = [version for version in versions if version is not None]
    if not known:
        raise ConfigError(f"{key}={names}: expected TLSv1.2, TLSv1.3 or both")
    return known


def context_of(properties: tuple[tuple[str, str], ...]) -> ssl.SSLContext:
    """A context for these properties; a new one if a file has changed since the last one."""
    files = [value for key, value in properties if key.endswith(".location")]
    return _context_of(properties, tuple(map(_changed_ns, files)))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0  # the context says what is wrong with it


@lru_cache(maxsize=8)
def _context_of(pairs: tuple[tuple[str, str], ...], _: tuple[int, ...]) -> ssl.SSLContext:
    properties = dict(pairs)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = _versions(properties)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if not properties.get("ssl.endpoint.identification.algorithm", "https"):
        context.check_hostname = False
    with _named("ssl.cipher.suites", properties):
        if "ssl.cipher.suites" in properties:
            _set_ciphers(context, properties["ssl.cipher.suites"])
    with _named("ssl.truststore.location", properties):
        _load_authorities(context, properties)
    with _named("ssl.keystore.location", properties):
        _load_own_certificate(context, properties)
    return context


def _set_ciphers(context: ssl.SSLContext, names: str) -> None:
    """Take the suites of TLS 1.2 by OpenSSL's names; those of 1.3 can't be chosen in Python."""
    wanted = [name.strip() for name in names.split(",")]
    suites = [name for name in wanted if name and not name.startswith("TLS_")]
    if not suites:
        raise ConfigError(
            f"ssl.cipher.suites={names}: suites of TLS 1.3 can't be chosen, and those of TLS 1.2 "
            "have OpenSSL's names here, such as ECDHE-RSA-AES256-GCM-SHA384"
        )
    context.set_ciphers(":".join(suites))


def _load_authorities(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    certificates = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if certificates:
        context.load_verify_locations(cadata=_pem(certificates))
    elif location:
        context.load_verify_locations(cafile=location)
    else:
        context.load_default_certs()


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    password = properties.get("ssl.key.password", "")
    chain, location = (
        properties.get("ssl.keystore.certificate.chain"),
        properties.get("ssl.keystore.location"),
    )
    # Without a password the context would ask for one on the terminal.
    if location and not chain:
        context.load_cert_chain(location, password=password)
    elif chain:
        key = properties.get("ssl.keystore.key", "")
        # OpenSSL reads them from files alone; this one only its owner can read.
        with NamedTemporaryFile("w", suffix=".pem", encoding="utf-8") as file:
            file.write(f"{_pem(key)}\n{_pem(chain)}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)


def _pem(text: str) -> str:
    r"""A certificate in one line of a properties file may have `\n` for the ends of its lines."""
    return text.replace("\\n", "\n")


@contextmanager
def _named(key: str, properties: Mapping[str, str]) -> Iterator[None]:
    """Name the property in the error for what OpenSSL refuses."""
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        shown = f"{key}={properties[key]}" if key in properties else key
        raise ConfigError(f"{shown}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"it can't be read as PEM, or the password is wrong ({error.reason})"
    return getattr(error, "strerror", None) or str(error)


def handshake(
    plain: socket.socket, context: ssl.SSLContext, host: str, address: str
) -> ssl.SSLSocket:
    """Protect a connected socket, whose timeout limits the handshake."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"{address}: its certificate is not accepted: {error.verify_message} (the authorities "
            "are those of ssl.truststore.location, or else of the system)"
        ) from None
    except ssl.SSLError as error:
        raise AuthenticationError(f"{address}: the TLS handshake failed: {_alert(error)}") from None
    except TimeoutError:
        raise UnreachableError(
            f"{address}: no TLS handshake in time; is this a listener with TLS?"
        ) from None
    except OSError as error:
        raise UnreachableError(f"{address}: {os.strerror(error.errno or 0)}") from None


def _alert(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason:
        return "the listener does not speak TLS"
    if "unexpected eof" in reason:
        return "the broker closed the connection; is this a listener with TLS?"
    return reason
