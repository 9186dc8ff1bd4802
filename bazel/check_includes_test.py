"""check_includes finds what the picture in docs/architecture.md forbids, and nothing else."""

import subprocess
import sys

import pytest

from bazel import check_includes


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("ops/dtype.h", '"server/engine/array.h"'),
        ("ops/defs/linalg.cc", '"proto/command.h"'),
        ("client/array.cc", '"server/engine/array.h"'),
        ("server/engine/executor.cc", '"server/native/runtime/device.h"'),
        ("server/native/runtime/device.cc", '"server/cuda/runtime/device.h"'),
        ("server/native/runtime/device.cc", '"server/native/kernels/register_kernels.h"'),
        ("server/native/loops/nest.cc", '"server/native/vendor/gemm.h"'),
        ("server/native/kernels/linalg.cc", "<cblas.h>"),
        ("server/server.cc", '"server/native/runtime/device.h"'),
        ("server/lapack/decompositions.cc", '"server/native/loops/nest.h"'),
        ("server/session/session.h", '"proto/messages.h"'),
        ("server/session/session.h", "<grpcpp/server.h>"),
        ("server/engine/array.cc", "<cuda_runtime.h>"),
        ("server/rpc/auth.cc", '"absl/synchronization/mutex.h"'),
        ("server/cuda/loops/launch.h", '"server/cuda/vendor/dnn.h"'),
        ("server/cuda/kernels/linalg.cu", "<cublas_v2.h>"),
        ("base/ref.h", '"ops/dtype.h"'),
    ],
)
def test_forbidden(path, included):
    text = f"#pragma once\n  #  include {included}  // why\n"
    header = included.strip('"<>')
    folder = check_includes.folder_of(path)
    assert check_includes.violations(path, text) == [f"{path}: {folder}/ may not include {header}"]


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("ops/dtype.cc", '"ops/defs/register_groups.h"'),
        ("ops/dtype.cc", '"absl/status/status.h"'),
        ("ops/dtype.cc", "<vector>"),
        ("server/session/session.cc", '"proto/command.h"'),
        ("server/session/session.cc", '"server/autograd/backward.h"'),
        ("server/cuda/runtime/device.cc", "<cuda_runtime.h>"),
        ("server/cuda/kernels/linalg.cu", '"server/cuda/vendor/gemm.h"'),
        ("server/server.cc", '"server/native/native_backend.h"'),
        ("tests/session/session_fixture.h", '"server/engine/devices.h"'),
        ("tools/anything.cc", '"server/engine/devices.h"'),
    ],
)
def test_allowed(path, included):
    assert check_includes.violations(path, f"#include {included}\n") == []


def test_a_comment_is_no_include():
    assert check_includes.violations("ops/dtype.h", '// #include "client/array.h"\n') == []


def test_rows_name_rows():
    """A misspelled folder in the table would allow nothing, unnoticed."""
    for row, targets in check_includes.ALLOWED.items():
        for target in targets:
            assert target.endswith(".h") or target in check_includes.ALLOWED, (row, target)
    for prefix, users in check_includes.SYSTEM.items():
        assert set(users) <= set(check_includes.ALLOWED), prefix


def test_the_command_fails_and_names_the_file(tmp_path):
    """As the build runs it: on a generated file, whose path starts in bazel-out/."""
    folder = tmp_path / "bazel-out/k8-fastbuild/bin/ops"
    folder.mkdir(parents=True)
    (folder / "bad.h").write_text('#include "client/array.h"\n')
    path = "bazel-out/k8-fastbuild/bin/ops/bad.h"
    command = [sys.executable, check_includes.__file__, path]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "ops/bad.h: ops/ may not include client/array.h" in run.stderr
