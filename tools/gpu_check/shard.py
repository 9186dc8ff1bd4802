"""A plug-in of pytest: the part I of N of all tests, by $GPU_CHECK_SHARD (I/N). Parts are alike in size."""

import os
import zlib


def pytest_collection_modifyitems(items):
    shard = os.environ.get("GPU_CHECK_SHARD")
    if shard:
        part, parts = (int(number) for number in shard.split("/"))
        items[:] = [i for i in items if zlib.crc32(i.nodeid.encode()) % parts == part]
