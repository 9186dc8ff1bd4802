"""The file that chx.connect's tls_roots names."""

from __future__ import annotations

import os

_BEGIN = b"-----BEGIN "
_EXPECTED = "[connect] tls_roots expects certificates in PEM"


def read_roots(path: str | os.PathLike[str]) -> str:
    """The certificates in the file, as text.

    A file without any is an error here: to the client underneath, no text at all says that there is
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
    raise ConnectionError(f"{_EXPECTED}, {got}")
