"""A machine of a test's own, as far as the kernel gives one: namespaces.

In it the test is root, /etc is a copy, and /run and /usr/local/bin are empty, as on a machine that
has just been installed; the network is its own loopback. Nothing outside is changed.
"""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess

_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def enter(scratch):
    """Moves this process, which must have one thread, onto the new machine, for good."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWUSER | _NEWNS | _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: this test needs user namespaces")
    for name, text in [
        ("setgroups", "deny"),
        ("uid_map", f"0 {uid} 1"),
        ("gid_map", f"0 {gid} 1"),
    ]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    etc = scratch / "etc"
    etc.mkdir()
    # What only the real root may read is not needed.
    subprocess.run(["cp", "-a", "/etc/.", etc], stderr=subprocess.DEVNULL)
    shutil.rmtree(etc / "chxd", ignore_errors=True)
    shutil.rmtree(etc / "systemd/system/chxd.service.d", ignore_errors=True)
    (etc / "systemd/system").mkdir(parents=True, exist_ok=True)
    for command in [
        ["--make-rprivate", "/"],
        ["--bind", str(etc), "/etc"],
        ["-t", "tmpfs", "none", "/run"],
        ["-t", "tmpfs", "none", "/usr/local/bin"],
    ]:
        subprocess.run(["mount", *command], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        request = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh14x", request)[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
