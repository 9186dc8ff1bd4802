#!/usr/bin/python3
"""Fails if a file includes what its folder may not: the picture in docs/architecture.md as a table.

Called at build time on the files of each library, by chx_cc_library.
"""

import re
import sys

# Folder -> folders or headers it may include, each with all below it. The longest prefix of a
# file's path counts. Generated code counts as part of the folder it is generated into.
ALLOWED = {
    "base": [],
    "ops": ["base"],
    "proto": ["base", "ops"],
    "formats": ["ops"],
    "server/engine": ["base", "ops", "server/observability/counters.h"],
    "server/log": ["base"],
    "server/kernels": ["base", "ops", "server/engine"],
    "server/lapack": ["base", "ops", "server/engine"],
    "server/native": [
        "base",
        "ops",
        "server/engine",
        "server/native/kernels",
        "server/native/runtime",
    ],
    "server/native/kernels": [
        "base",
        "ops",
        "server/engine",
        "server/kernels",
        "server/lapack",
        "server/native/loops",
        "server/native/runtime",
        "server/native/vendor",
    ],
    "server/native/loops": [
        "ops",
        "server/engine",
        "server/kernels",
        "server/native/runtime",
    ],
    "server/native/runtime": ["base", "ops", "server/engine"],
    "server/native/testing": ["ops", "server/engine", "server/kernels", "server/native"],
    "server/native/vendor": [
        "base",
        "ops",
        "server/engine",
        "server/kernels",
        "server/native/runtime",
    ],
    # Each folder on those before it.
    "server/cuda/loops": ["base", "ops", "server/engine", "server/kernels"],
    "server/cuda/vendor": [
        "base",
        "ops",
        "server/cuda/loops",
        "server/engine",
        "server/kernels",
        "server/log",
    ],
    "server/cuda/kernels": [
        "base",
        "ops",
        "server/cuda/loops",
        "server/cuda/vendor",
        "server/engine",
        "server/kernels",
        "server/lapack",
    ],
    "server/cuda": [
        "base",
        "ops",
        "server/cuda/kernels",
        "server/cuda/loops",
        "server/cuda/vendor",
        "server/engine",
        "server/kernels",
        "server/lapack",
    ],
    "server/cuda/testing": [
        "base",
        "ops",
        "server/cuda",
        "server/engine",
        "server/kernels",
        "server/lapack",
    ],
    "server/autograd": ["base", "ops", "proto/ids.h", "server/engine"],
    "server/peers": ["base", "ops", "server/log"],
    "server/gloo": ["base", "server/collectives/mesh.h"],
    "server/collectives": [
        "base",
        "ops",
        "proto/frame.h",
        "server/engine",
        "server/log",
        "server/peers",
    ],
    "server/programs": ["base", "ops", "server/engine", "server/autograd"],
    # Commands and answers to them, without messages: see docs/decisions/0001.
    "server/session": [
        "base",
        "ops",
        "proto/command.h",
        "proto/command_codec.h",
        "proto/graph_state.h",
        "proto/ids.h",
        "proto/saved_arrays.h",
        "proto/shared_block.h",
        "proto/shared_names.h",
        "server/engine",
        "server/autograd",
        "server/collectives",
        "server/log",
        "server/observability/counters.h",
        "server/observability/metrics.h",
        "server/programs",
        "server/sharing",
        "server/tenancy/tenant.h",
        "server/tenancy/tenant_use.h",
        "server/trace",
    ],
    # Files of the operator's.
    "server/data": ["ops", "formats"],
    "server/runs": [
        "base",
        "ops",
        "server/data",
        "proto/command.h",
        "proto/ids.h",
        "server/engine",
        "server/kernels/philox.h",
        "server/kernels/types.h",
        "server/session",
        "server/tenancy/tenant_use.h",
    ],
    "server/rpc": [
        "base",
        "ops",
        "proto",
        "server/data",
        "server/runs",
        "server/session",
        "server/engine/devices.h",
        "server/engine/memory_budget.h",
        "server/log",
        "server/observability",
        "server/tenancy",
        "server/trace",
    ],
    "server/observability": ["base", "ops", "server/engine"],
    "server/sharing": [
        "base",
        "ops",
        "proto/shared_names.h",
        "server/engine",
        "server/tenancy/tenant.h",
    ],
    "server/trace": ["base", "ops", "server/engine/memory_budget.h"],
    "server/state": [
        "base",
        "ops",
        "proto/command_codec.h",
        "proto/ids.h",
        "server/autograd",
        "server/engine",
        "server/log",
        "server/runs",
        "server/session",
        "server/tenancy/tenant.h",
    ],
    "server/process": ["base", "proto", "server/log"],
    "server/tenancy": ["base", "ops", "server/engine"],
    # Of the daemon itself they know who a peer is, and nothing else.
    "server/admin": [
        "base",
        "proto",
        "server/log",
        "server/process",
        "server/tenancy/token_hash.h",
    ],
    "server/front": [
        "base",
        "proto",
        "server/log",
        "server/process",
        "server/rpc/peer_info.h",
        "server/tenancy/service_token.h",
        "server/tenancy/token_hash.h",
    ],
    "server/web": [
        "base",
        "proto",
        "server/front/listeners.h",
        "server/log",
        "server/process",
        "server/tenancy/token_hash.h",
    ],
    "server": [
        "base",
        "ops",
        "server/admin",
        "server/collectives",
        "server/data",
        "server/engine",
        "server/front",
        "server/log",
        "server/native/host_backend.h",
        "server/native/native_backend.h",
        "server/observability",
        "server/peers",
        "server/process",
        "server/rpc",
        "server/runs",
        "server/session",
        "server/sharing",
        "server/state",
        "server/tenancy",
        "server/trace",
        "server/web",
    ],
    "client": ["base", "ops", "proto"],
    "client/admin": ["ops", "client", "proto"],
    "client/ctl": ["client", "ops"],
    "client/files": ["ops", "client", "formats"],
    "python_client": ["base", "ops", "client"],
    "tests": ["base", "ops", "proto", "server", "client", "formats"],
}

# Debian's headers lie in /usr/include together, so that no dependency keeps them apart: prefix ->
# folders that may include them.
SYSTEM = {
    "boost/": ["server/peers", "server/web"],
    "absl/synchronization/mutex.h": [],  # base/mutex.h instead: ThreadSanitizer can see that one.
    "cjose/": ["server/tenancy"],
    "cblas": ["server/lapack", "server/native", "server/native/vendor"],
    "CLI/": ["client/ctl", "server"],
    "cublas": ["server/cuda/testing", "server/cuda/vendor"],
    "cuda": [
        "server/cuda",
        "server/cuda/loops",
        "server/cuda/testing",
        "server/cuda/vendor",
        "server/kernels",
    ],
    "cudnn": ["server/cuda/vendor"],
    "cusolver": ["server/cuda/vendor"],
    "dnnl": ["server/native/vendor"],
    "gloo/": ["server/gloo"],
    "google/protobuf/": [
        "client",
        "proto",
        "server",
        "server/admin",
        "server/front",
        "server/process",
        "server/rpc",
        "server/web",
        "tests",
    ],
    "grpc": ["server/admin", "tests"],
    "nlohmann/": [
        "client/admin",
        "client/ctl",
        "formats",
        "server/tenancy",
        "server/web",
    ],
    "openssl/": [
        "client",
        "server/collectives",
        "server/front",
        "server/peers",
        "server/sharing",
        "server/tenancy",
        "server/web",
        "tests",
    ],
    "Python.h": ["python_client"],
    "fmt/": ["server/log"],
    "spdlog/": ["server/log"],
    "toml++/": ["server"],
    "xxhash": ["server/state"],
    "yaml-cpp/": ["server/tenancy"],
    "zip": ["client/files"],
}

OURS = {path.split("/")[0] for path in ALLOWED}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def folder_of(path):
    """The longest entry of the table that the path lies in, or None."""
    inside = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def may_include(folder, included):
    """Whether the tables let a file of `folder` include the header `included`."""
    if included.split("/")[0] in OURS:
        own = folder_of(included) == folder
        return own or any(f"{included}/".startswith(f"{row}/") for row in ALLOWED[folder])
    return all(folder in users for prefix, users in SYSTEM.items() if included.startswith(prefix))


def violations(path, text):
    """The includes in `text`, a file at `path`, that break the table."""
    folder = folder_of(path)
    if folder is None:
        return []
    return [
        f"{path}: {folder}/ may not include {included}"
        for included in INCLUDE.findall(text)
        if not may_include(folder, included)
    ]


def main():
    bad = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            bad += violations(re.sub(r"^bazel-out/[^/]+/bin/", "", path), file.read())
    if bad:
        sys.exit("\n".join(bad))
    print("// Includes checked.")


if __name__ == "__main__":
    main()
