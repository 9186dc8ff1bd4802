"""The SDK's tools refuse what is not public."""

import subprocess
import sys

import pytest

from sdk import exports, headers

PUBLIC = {"client/array.h", "ops/dtype.h"}


def test_rewrites_includes():
    text = '#include <string>\n\n#include "absl/status/status.h"\n#include "client/array.h"\n'
    assert headers.rewrite("client/x.h", text + '#include "ops/dtype.h"\n', PUBLIC) == (
        text.replace("client/", "chx/") + '#include "chx/ops/dtype.h"\n'
    )


@pytest.mark.parametrize(
    "include",
    ['"client/connection.h"', '"proto/chxd.pb.h"', "<openssl/ssl.h>", "<google/protobuf/any.h>"],
)
def test_refuses_what_is_not_public(include, tmp_path):
    (tmp_path / "x.h").write_text(f"#include {include}\n")
    done = subprocess.run(
        [sys.executable, headers.__file__, tmp_path / "out", tmp_path / "x.h"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a public header may not include" in done.stderr


def test_headers_with_public_paths_keep_them():
    path = "client/chainerx/include/chx/chainerx.h"
    assert headers.public_path(path) == "chx/chainerx.h"
    text = '#include "chx/chainerx.h"\n'
    assert headers.rewrite("client/x.h", text, {path}) == text


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("client/array.h", "client/array.h"),
        ("bazel-out/k8-opt/bin/client/ops.h", "client/ops.h"),
        ("external/chxd/ops/dtype.h", "ops/dtype.h"),
        ("bazel-out/k8-opt/bin/external/chxd/client/ops.h", "client/ops.h"),
    ],
)
def test_source_path(path, source):
    assert headers.source_path(path) == source


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("chx::Array::Item() const", True),
        ("vtable for chx::Array", True),
        ("chx::operator+(chx::Array const&, chx::Operand const&)", True),
        ("chx::Connection::Open(chx::Array const&)", False),
        ("chx::v1::Event::Event()", False),
        ("absl::Status chx::Array()", False),
        ("google::protobuf::chx::Array()", False),
    ],
)
def test_is_public(name, public):
    assert exports.is_public(name, {"Array", "operator"}) == public
