"""Key stores and trust stores: PEM as text or in a file, and files of PKCS#12."""

from __future__ import annotations

import re
from base64 import b64decode

from kraftlog.config.tls import KEYSTORE
from kraftlog.errors import ConfigError, message_of
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.config.tls import TlsSettings

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
#: How the files of Java's own formats, JKS and JCEKS, begin.
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
#: How a file of PKCS#12 begins: as every value of DER that is a sequence.
_SEQUENCE = b"\x30"


class Store(Value):
    """The contents of a store as blocks of PEM; of `certificates` the first is the key's own."""

    key: str
    certificates: tuple[str, ...]


def read_store(settings: TlsSettings, store: str) -> Store | None:
    """The store that the settings name; None without one. Raises ConfigError."""
    location = f"{store}.location"
    if settings.is_given(location):
        return _read_file(settings, store)
    inline = [f"{store}.key", f"{store}.certificate.chain"]
    if store != KEYSTORE:
        inline = [f"{store}.certificates"]
    if not settings.is_given(inline[-1]):
        return None
    # One line of a properties file may have `\n` for the ends of PEM's lines.
    text = "\n".join([settings.text(key).replace("\\n", "\n") for key in inline])
    return _checked(_of_pem(text), settings.name(inline[-1]), store)


def refuse_unreadable_types(settings: TlsSettings, store: str) -> None:
    """Refuse a file of a type that cannot be read; a missing file is refused when it is used."""
    location = f"{store}.location"
    if settings.is_given(location):
        try:
            with open(settings.text(location), "rb") as file:
                _type_of(settings, store, file.read(4))
        except OSError:
            pass


def _read_file(settings: TlsSettings, store: str) -> Store:
    location = f"{store}.location"
    try:
        with open(settings.text(location), "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{settings.shown(location)}: {message_of(error)}") from None
    if _type_of(settings, store, data) == "PKCS12":
        contents = _of_pkcs12(settings, store, data)
    else:
        contents = _of_pem(data.decode("utf-8", "replace"))
    return _checked(contents, settings.shown(location), store)


def _type_of(settings: TlsSettings, store: str, data: bytes) -> str:
    """PEM or PKCS12, by the contents.

    As in Java, JKS (Kafka's default) also stands for PKCS12: keytool makes such files since Java 9.
    """
    location, kind = f"{store}.location", f"{store}.type"
    if data.startswith(_JAVA):
        path = settings.text(location)
        raise ConfigError(
            f"{settings.shown(location)}: Java's key stores (JKS) can't be read: convert it "
            f"(keytool -importkeystore -srckeystore {path} -destkeystore store.p12 "
            "-deststoretype PKCS12)"
        )
    found = "PKCS12" if data.startswith(_SEQUENCE) else "PEM"
    expected = settings.text(kind).upper()
    if settings.is_given(kind) and expected != found and (expected, found) != ("JKS", "PKCS12"):
        raise ConfigError(
            f"{settings.shown(location)}: it is {_article(found)} file, not {settings.shown(kind)}"
        )
    return found


def _article(kind: str) -> str:
    return "no PKCS12" if kind == "PEM" else "a PKCS12"


def _checked(contents: Store, shown: str, store: str) -> Store:
    if not contents.certificates:
        raise ConfigError(f"{shown}: it has no certificate")
    if store == KEYSTORE and not contents.key:
        raise ConfigError(f"{shown}: it has no private key")
    return contents


def _of_pem(text: str) -> Store:
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(text)]
    keys = [block for label, block in blocks if label.endswith("PRIVATE KEY")]
    return Store(
        keys[0] if keys else "",
        tuple([block for label, block in blocks if label == "CERTIFICATE"]),
    )


def _of_pkcs12(settings: TlsSettings, store: str, data: bytes) -> Store:
    location = f"{store}.location"
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(
            f"{settings.shown(location)}: files of PKCS#12 need the package cryptography (pip "
            "install 'kraftlog[pkcs12]'); or convert it (openssl pkcs12 -in "
            f"{settings.text(location)} -out store.pem)"
        ) from None
    password = settings.text(f"{store}.password")
    try:
        found = load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        raise ConfigError(
            f"{settings.shown(location)}: it can't be read as PKCS#12, or "
            f"{settings.name(f'{store}.password')} is wrong"
        ) from None
    pem = form.Encoding.PEM
    key = (
        ""
        if found.key is None
        else found.key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption()).decode()
    )
    certificates = [each for each in (found.cert, *found.additional_certs) if each is not None]
    return Store(key, tuple([each.certificate.public_bytes(pem).decode() for each in certificates]))


def der_of(block: str) -> bytes:
    """A block of PEM as DER."""
    return b64decode("".join(block.splitlines()[1:-1]))
