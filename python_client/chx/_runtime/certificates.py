"""The files that chx.connect's tls_roots, tls_cert and tls_key name."""

from __future__ import annotations

import os

_BEGIN = b"-----BEGIN "


def read_roots(path: str | os.PathLike[str], name: str = "tls_roots") -> str:
    """The certificates in the file, as text.

    `name` is the argument's. A file without any is an error here: to the client underneath, no text at all says that there is
    to be no TLS.

    Raises:
      OSError: it cannot be read.
      ConnectionError: it has no certificate.
    """
    with open(path, "rb") as file:
        data = file.read()
    if _BEGIN in data and b"CERTIFICATE-----" in data:
        return data.decode("ascii", "replace")
    got = f"got {os.fspath(path)}, which has none"
    if b"PRIVATE KEY-----" in data:
        got = f"got {os.fspath(path)}, which has a private key"
    elif data[:1] == b"\x30":  # how each sequence begins in DER
        got += f"; it looks like DER: openssl x509 -inform der -in {os.fspath(path)} writes PEM"
    raise ConnectionError(f"[connect] {name} expects certificates in PEM, {got}")


def read_certificate(
    certificate: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None
) -> tuple[str, str]:
    """The texts of a client's own certificate and its key; both empty if there is none.

    Raises:
      OSError: a file cannot be read.
      ConnectionError: the first has no certificate, or one is without the other.
    """
    if certificate is None and key is None:
        return "", ""
    if certificate is None or key is None:
        raise ConnectionError("[connect] expects tls_cert and tls_key together")
    chain = read_roots(certificate, "tls_cert")
    with open(key, encoding="ascii", errors="replace") as file:
        return chain, file.read()
