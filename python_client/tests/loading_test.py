"""chx beside a library that shows other versions of chx's own libraries to the process, as TensorFlow does."""

import subprocess
import sys

# What chx._core calls first of each, for its session and for TLS.
LIBRARY = """
#include <stdio.h>
#include <stdlib.h>
#define WRONG(name) void name(void) { fputs(#name, stderr); abort(); }
WRONG(_ZN6google8protobuf14DescriptorPoolC1Ev)
WRONG(_ZN6google8protobuf8internal20RepeatedPtrFieldBase18AddOutOfLineHelperEPv)
WRONG(_ZN6google8protobuf11MessageLite15ParseFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
WRONG(_ZNK6google8protobuf11MessageLite17SerializeAsStringB5cxx11Ev)
WRONG(SSL_new)
"""
PROGRAM = """
import ctypes, sys
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
flags = sys.getdlopenflags()
import chx
assert sys.getdlopenflags() == flags
chx.connect()
print(chx.ones(3).sum().item())
"""


def test_own_libraries_come_first(tmp_path):
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", library, source], check=True)
    for arguments in ([], [str(library)]):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
