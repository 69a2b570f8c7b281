"""Certificates for tests of TLS, made for each run."""

from __future__ import annotations

import datetime
import functools
import os
import ssl
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA(organization_name="kraftlog tests")


class Certificates:
    """Files of PEM in a folder: `ca.pem`, and one per certificate with its key first."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        authority().cert_pem.write_to_path(self.file("ca"))
        for name in ("127.0.0.1", "client", *names):
            self.issue(name)

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def issue(
        self,
        name: str,
        *,
        file: str | None = None,
        days: int = 30,
        organization: str | None = None,
        by: trustme.CA | None = None,
    ) -> str:
        """Write a certificate for a host, and replace the file if it exists; returns its path."""
        now = datetime.datetime.now(datetime.UTC)
        issued = (by or authority()).issue_cert(
            name,
            common_name=name,
            organization_name=organization,
            not_before=now - datetime.timedelta(days=60),
            not_after=now + datetime.timedelta(days=days),
        )
        path = self.file(file or name)
        chain = [issued.private_key_pem, *issued.cert_chain_pems]
        with open(f"{path}.new", "wb") as written:
            written.write(b"".join([each.bytes() for each in chain]))
        os.replace(f"{path}.new", path)
        return path

    def settings(self, **changed: str) -> dict[str, str]:
        """The settings of a node for all its listeners; underscores of `changed` are dots."""
        return {
            "ssl.keystore.location": self.file("127.0.0.1"),
            "ssl.truststore.location": self.file("ca"),
            **{key.replace("_", "."): value for key, value in changed.items()},
        }

    def properties(self, own: str | None = None) -> dict[str, str]:
        """The properties of a Java client, or of ours."""
        security = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.file("ca"),
        }
        if own is not None:
            security |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.file(own)}
        return security

    def librdkafka(self, own: str | None = None) -> dict[str, str]:
        """The same for librdkafka."""
        security = {"security.protocol": "ssl", "ssl.ca.location": self.file("ca")}
        if own is not None:
            security |= {
                "ssl.certificate.location": self.file(own),
                "ssl.key.location": self.file(own),
            }
        return security

    def context(self, own: str | None = None) -> ssl.SSLContext:
        """The same for Python's clients."""
        context = ssl.create_default_context(cafile=self.file("ca"))
        if own is not None:
            context.load_cert_chain(self.file(own))
        return context
