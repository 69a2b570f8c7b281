"""A certificate authority for one machine: `kraftlog start --secure`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY = "kraftlog local authority"
AUTHORITY_DAYS, NODE_DAYS = 3650, 365
#: A certificate is renewed at the first start in its last days.
RENEW_DAYS = 30
#: Clocks of clients may be behind.
_LEEWAY = timedelta(hours=1)


class Authority(Value):
    """The key of an authority and its certificate."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def open(cls, certificate_path: str, key_path: str) -> Authority:
        """The authority in these files; a new one if neither exists."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise ConfigError(
                "--secure: certificates need the package cryptography "
                "(pip install 'kraftlog[secure]')"
            ) from None
        if not os.path.exists(certificate_path) and not os.path.exists(key_path):
            return _new_authority(certificate_path, key_path)
        try:
            with open(certificate_path, "rb") as file:
                certificate = x509.load_pem_x509_certificate(file.read())
            with open(key_path, "rb") as file:
                key = load_pem_private_key(file.read(), None)
        except ValueError:
            raise ConfigError(
                f"{certificate_path} and {key_path} are not a certificate and its key; without "
                "both files a new authority is made, which clients then need"
            ) from None
        assert isinstance(key, EllipticCurvePrivateKey)
        return cls(key, certificate)

    def certify(self, path: str, name: str, hosts: Iterable[str]) -> None:
        """Write a key and a certificate for hosts, unless the file has a good one."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        names = sorted(set(hosts))
        if os.path.exists(path) and self._is_good(path, names):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, self.certificate.subject, key, NODE_DAYS)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(_key_of(self.key), critical=False)
        certificate = _signed(builder, self.key)
        write_private(path, _pem_of(key) + _pem(certificate))

    def _is_good(self, path: str, names: list[str]) -> bool:
        """Whether it is this authority's, names these hosts, and is valid for some time."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        with open(path, "rb") as file:
            try:
                certificate = x509.load_pem_x509_certificates(file.read())[0]
                certificate.verify_directly_issued_by(self.certificate)
            except (ValueError, InvalidSignature):
                return False
        extensions = certificate.extensions
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        named = {str(each.value) for each in found}
        if not any(isinstance(each.value, x509.AuthorityKeyIdentifier) for each in extensions):
            return False
        end = certificate.not_valid_after_utc
        return named.issuperset(names) and end - datetime.now(UTC) > timedelta(days=RENEW_DAYS)


def _new_authority(certificate_path: str, key_path: str) -> Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(AUTHORITY, _name(AUTHORITY), key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = builder.add_extension(_key_of(key), critical=False)
    builder = builder.add_extension(
        x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True
    )
    certificate = _signed(builder, key)
    write_private(key_path, _pem_of(key))
    write_private(certificate_path, _pem(certificate))
    return Authority(key, certificate)


def _builder(
    name: str, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_of(authority: EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    """Which key has signed: strict clients, as Python's from 3.13 on, require it."""
    from cryptography import x509

    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def write_private(path: str, data: bytes) -> None:
    """Replace a file that only its owner may read, durably."""
    temporary = f"{path}.tmp"
    with open(temporary, "wb", opener=_open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
