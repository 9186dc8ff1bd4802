"""What of tests/conformance/beyond.py chx does not have, and why not."""

ABSENT = {
    # About an array's own memory, which is in the daemon, or about how it is laid out there.
    "ndarray.resize",
    "ndarray.base",
    "ndarray.data",
    "ndarray.byteswap",
    "ndarray.newbyteorder",
    "ndarray.getfield",
    "ndarray.setfield",
    "ndarray.setflags",
    "ndarray.ctypes",
    # Whole areas.
    "fft",
    "ma",
    "polynomial",
    "complex64",
    "complex128",
    "uint16",
    "uint32",
    "uint64",
}
