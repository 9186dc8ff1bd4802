"""Repository rule that exposes Debian's -dev packages as the repository @system.

Headers are used in place: /usr/include is one of the compiler's built-in
include directories, so Bazel neither copies nor tracks them. The version of
each package goes into the generated packages.bzl instead, and from there into
a define of the target, so an upgraded package rebuilds what includes it.

With --repo_env=CHX_GRPC_PREFIX=/opt/grpc gRPC, protobuf and Abseil, and OpenSSL
if it is there too, are those below that folder (docs/security_updates.md).
"""

_LIBDIR = "/usr/lib/x86_64-linux-gnu"

# What must be installed: package -> a file that it brings.
_PACKAGES = {
    "libabsl-dev": "/usr/include/absl/base/config.h",
    "libbenchmark-dev": "/usr/include/benchmark/benchmark.h",
    "libboost-dev": "/usr/include/boost/beast.hpp",
    "libc-ares-dev": _LIBDIR + "/libcares.a",
    "libcjose-dev": _LIBDIR + "/libcjose.a",
    "libcli11-dev": "/usr/include/CLI/CLI.hpp",
    "libdnnl-dev": "/usr/include/dnnl.h",
    "libfmt-dev": "/usr/include/fmt/format.h",
    "libgloo-dev": "/usr/include/gloo/context.h",
    "libgmock-dev": "/usr/include/gmock/gmock.h",
    "libgrpc++-dev": "/usr/include/grpcpp/grpcpp.h",
    "libgtest-dev": "/usr/include/gtest/gtest.h",
    "libjansson-dev": _LIBDIR + "/libjansson.a",
    "libopenblas-dev": _LIBDIR + "/libopenblas.a",
    "libprotobuf-dev": "/usr/include/google/protobuf/message.h",
    "libre2-dev": _LIBDIR + "/libre2.a",
    "libspdlog-dev": "/usr/include/spdlog/spdlog.h",
    "libssl-dev": _LIBDIR + "/libssl.a",
    "libtomlplusplus-dev": "/usr/include/toml++/toml.h",
    "libxxhash-dev": "/usr/include/xxhash.h",
    "libyaml-cpp-dev": _LIBDIR + "/libyaml-cpp.a",
    "libzip-dev": "/usr/include/zip.h",
    "nlohmann-json3-dev": "/usr/include/nlohmann/json.hpp",
    "protobuf-compiler": "/usr/bin/protoc",
    "protobuf-compiler-grpc": "/usr/bin/grpc_cpp_plugin",
    "python3-dev": "/usr/include/python3.11/Python.h",
    "zlib1g-dev": _LIBDIR + "/libz.a",
}

# Link order matters for archives: dependents first.
_GRPC = [
    "grpc++_reflection",
    "grpc++",
    "grpc",
    "upb",
    "address_sorting",
    "gpr",
    "re2",
    "cares",
]

_OPENSSL = [
    "ssl",
    "crypto",
]

_PROTOBUF = [
    "protobuf",
    "z",
]

# The order of `pkg-config --static --libs` over all of Abseil's .pc files, kept
# here because that call takes eight seconds.
_ABSL = [
    "absl_bad_any_cast_impl",
    "absl_cordz_sample_token",
    "absl_failure_signal_handler",
    "absl_examine_stack",
    "absl_flags_parse",
    "absl_flags_usage",
    "absl_flags_usage_internal",
    "absl_flags_internal",
    "absl_flags_marshalling",
    "absl_flags_reflection",
    "absl_flags_private_handle_accessor",
    "absl_flags_commandlineflag",
    "absl_flags_commandlineflag_internal",
    "absl_flags_config",
    "absl_flags_program_name",
    "absl_leak_check",
    "absl_hash",
    "absl_city",
    "absl_low_level_hash",
    "absl_periodic_sampler",
    "absl_random_internal_distribution_test_util",
    "absl_random_distributions",
    "absl_random_seed_sequences",
    "absl_random_internal_pool_urbg",
    "absl_random_internal_randen",
    "absl_random_internal_randen_hwaes",
    "absl_random_internal_randen_hwaes_impl",
    "absl_random_internal_randen_slow",
    "absl_random_internal_platform",
    "absl_random_internal_seed_material",
    "absl_random_seed_gen_exception",
    "absl_raw_hash_set",
    "absl_hashtablez_sampler",
    "absl_scoped_set_env",
    "absl_statusor",
    "absl_status",
    "absl_cord",
    "absl_cordz_info",
    "absl_cord_internal",
    "absl_cordz_functions",
    "absl_exponential_biased",
    "absl_cordz_handle",
    "absl_bad_optional_access",
    "absl_str_format_internal",
    "absl_strerror",
    "absl_synchronization",
    "absl_graphcycles_internal",
    "absl_stacktrace",
    "absl_symbolize",
    "absl_debugging_internal",
    "absl_demangle_internal",
    "absl_malloc_internal",
    "absl_time",
    "absl_civil_time",
    "absl_strings",
    "absl_strings_internal",
    "absl_base",
    "absl_spinlock_wait",
    "absl_int128",
    "absl_throw_delegate",
    "absl_time_zone",
    "absl_bad_variant_access",
    "absl_raw_logging_internal",
    "absl_log_severity",
]

_OTHERS = [
    "gmock",
    "gtest",
    "gtest_main",
    "openblas",
    "benchmark",
    "cjose",
    "jansson",
    "yaml-cpp",
    "zip",
]

def _identifier(text):
    return "".join([c if c.isalnum() else "_" for c in text.elems()])

def _run(rctx, argv):
    result = rctx.execute(argv)
    if result.return_code != 0:
        fail("%s failed: %s" % (" ".join(argv), result.stderr))
    return result.stdout.strip()

def _sonames(rctx, names):
    """Maps each name to the soname of its shared object, in one call of objdump."""
    paths = [rctx.path("%s/lib%s.so" % (_LIBDIR, name)) for name in names]
    existing = [str(path) for path in paths if path.exists]
    sonames = {}
    current = ""
    for line in _run(rctx, ["objdump", "-p"] + existing).split("\n"):
        if ":     file format" in line:
            current = line.split(":")[0].split("/")[-1]
        elif line.startswith("  SONAME"):
            sonames[current[len("lib"):-len(".so")]] = line.split(" ")[-1]
    return sonames

def _link(rctx, name, soname):
    """Links the archive and the shared object into lib/; returns the labels."""
    static = ""
    archive = rctx.path("%s/lib%s.a" % (_LIBDIR, name))
    if archive.exists:
        static = "lib/lib%s.a" % name
        rctx.symlink(archive.realpath, static)
    shared = ""
    if soname:
        shared = "lib/" + soname
        rctx.symlink(rctx.path("%s/lib%s.so" % (_LIBDIR, name)).realpath, shared)
    return [name, static, shared]

# What $CHX_GRPC_PREFIX replaces.
_PREFIX_PACKAGES = [
    "libabsl-dev",
    "libgrpc++-dev",
    "libprotobuf-dev",
    "protobuf-compiler",
    "protobuf-compiler-grpc",
]

# By name, of those that a prefix may have; a name that ends in * stands for all that begin so.
_PREFIX_LIBS = {
    "ABSL": ["absl_*"],
    "GRPC": _GRPC + ["upb_*", "utf8_range*"],
    "OPENSSL": _OPENSSL,
    "PROTOBUF": _PROTOBUF + ["utf8_*"],
}

# Archives of Debian's that stand in for what the prefix has not.
_PREFIX_FALLBACKS = {
    "GRPC": ["re2", "cares"],
    "OPENSSL": _OPENSSL,
    "PROTOBUF": ["z"],
}

_PREFIX_NEEDS = [
    "bin/grpc_cpp_plugin",
    "bin/protoc",
    "include/absl/base/config.h",
    "include/google/protobuf/message.h",
    "include/grpcpp/grpcpp.h",
]

def _matches(name, patterns):
    for pattern in patterns:
        if name == pattern or pattern.endswith("*") and name.startswith(pattern[:-1]):
            return True
    return False

def _link_prefix(rctx, prefix):
    """Links the prefix into prefix/; returns {key of _PREFIX_LIBS: labels of archives}."""
    missing = [path for path in _PREFIX_NEEDS if not rctx.path(prefix + "/" + path).exists]
    if missing:
        fail("CHX_GRPC_PREFIX=%s has no %s" % (prefix, ", ".join(missing)))
    rctx.symlink(prefix + "/include", "prefix/include")
    groups = {key: [] for key in _PREFIX_LIBS}
    for folder in ["lib", "lib64"]:
        if not rctx.path(prefix + "/" + folder).exists:
            continue
        for archive in sorted([str(path) for path in rctx.path(prefix + "/" + folder).readdir()]):
            file = archive.split("/")[-1]
            if not file.startswith("lib") or not file.endswith(".a"):
                continue
            for key, patterns in _PREFIX_LIBS.items():
                if _matches(file[len("lib"):-len(".a")], patterns):
                    rctx.symlink(archive, "prefix/lib/" + file)
                    groups[key].append("prefix/lib/" + file)
                    break
    for key in ["ABSL", "GRPC", "PROTOBUF"]:
        if not groups[key]:
            fail("CHX_GRPC_PREFIX=%s has no archives of %s in lib or lib64" % (prefix, key))

    # Debian's, beside the others: a linker reads groups after single archives.
    for key, names in _PREFIX_FALLBACKS.items():
        for name in names:
            file = "prefix/lib/lib%s.a" % name
            if file not in groups[key]:
                rctx.symlink("%s/lib%s.a" % (_LIBDIR, name), file)
                groups[key].append(file)
    return groups

def _system_libs_impl(rctx):
    prefix = rctx.os.environ.get("CHX_GRPC_PREFIX", "")
    wanted = {
        package: path
        for package, path in _PACKAGES.items()
        if not prefix or package not in _PREFIX_PACKAGES
    }
    missing = [package for package, path in wanted.items() if not rctx.path(path).exists]
    if missing:
        fail("missing Debian packages; run: apt-get install -y " + " ".join(missing))
    listing = _run(
        rctx,
        ["dpkg-query", "-W", "-f", "${Package} ${Version}\n"] + wanted.keys(),
    )
    versions = dict([line.split(" ") for line in listing.split("\n")])

    # As a macro's name: any other value would need parentheses for clang-tidy.
    defines = {
        package: "SYSTEM_%s_%s" % (_identifier(package), _identifier(version))
        for package, version in versions.items()
    }
    for package in _PREFIX_PACKAGES:
        if prefix:
            defines[package] = "SYSTEM_%s_prefix" % _identifier(package)

    libs = {"ABSL": _ABSL, "GRPC": _GRPC, "OPENSSL": _OPENSSL, "PROTOBUF": _PROTOBUF}
    groups = _link_prefix(rctx, prefix) if prefix else {key: [] for key in libs}
    if prefix:
        libs = {key: [] for key in libs}

    sonames = _sonames(rctx, _GRPC + _OPENSSL + _PROTOBUF + _ABSL + _OTHERS)
    pairs = {
        key: [_link(rctx, name, sonames.get(name)) for name in names]
        for key, names in libs.items()
    }
    for name in _OTHERS:
        pairs[_identifier(name).upper()] = [_link(rctx, name, sonames.get(name))]

    bin = prefix + "/bin" if prefix else "/usr/bin"
    rctx.symlink(bin + "/protoc", "protoc")
    rctx.symlink(bin + "/grpc_cpp_plugin", "grpc_cpp_plugin")
    rctx.file("packages.bzl", "DEFINES = %r\nPREFIX = %r\n" % (defines, groups) + "".join([
        "%s = %r\n" % (key, value)
        for key, value in pairs.items()
    ]))
    rctx.symlink(Label("//bazel/system:system.BUILD"), "BUILD")

system_libs = repository_rule(
    implementation = _system_libs_impl,
    doc = "Debian's C++ libraries as cc targets; looked up again at each server start.",
    environ = ["CHX_GRPC_PREFIX"],
    local = True,
)
