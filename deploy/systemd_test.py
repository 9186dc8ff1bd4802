"""The systemd unit: what systemd itself says of it, and what we ask of it."""

import pathlib
import re
import shutil
import subprocess

import pytest

UNIT = pathlib.Path(__file__).parent / "systemd" / "chxd.service"
TLS = UNIT.with_name("tls.conf")
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"
)


def settings():
    """{section: {name: [values]}}; configparser knows no repeated names."""
    sections = {}
    for line in UNIT.read_text().replace("\\\n", " ").splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
        elif line and not line.startswith("#"):
            name, value = line.split("=", 1)
            section.setdefault(name, []).append(value)
    return sections


@pytest.fixture
def service():
    return settings()["Service"]


def verify(text, folder, drop_in=""):
    """What systemd-analyze says: a program that exists stands in for chxd."""
    path = folder / UNIT.name
    if drop_in:
        (folder / "chxd.service.d").mkdir()
        (folder / "chxd.service.d" / TLS.name).write_text(drop_in)
    path.write_text(text.replace("/usr/local/bin/chxd", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True
    )
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_accepts_it(tmp_path):
    assert verify(UNIT.read_text(), tmp_path) == ""


@needs_systemd
@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("ProtectSystem=strict", "ProtektSystem=strict"),
        ("ProtectSystem=strict", "ProtectSystem=strickt"),
        ("Restart=on-failure", "Restart=sometimes"),
        ("SystemCallFilter=@system-service", "SystemCallFilter=@system-servant"),
    ],
)
def test_systemd_finds_mistakes(tmp_path, text, broken):
    content = UNIT.read_text()
    assert text in content
    assert verify(content.replace(text, broken), tmp_path) != ""


@needs_systemd
def test_systemd_accepts_the_drop_in_for_tls(tmp_path):
    assert verify(UNIT.read_text(), tmp_path, TLS.read_text()) == ""
    (tmp_path / "broken").mkdir()
    broken = TLS.read_text().replace("LoadCredential=", "LoadCredentials=")
    assert "LoadCredentials" in verify(UNIT.read_text(), tmp_path / "broken", broken)


def test_the_key_is_a_credential():
    """For other machines: what is loaded, by root, is what the flags name."""
    text = TLS.read_text()
    loaded = dict(re.findall(r"^LoadCredential=([\w.]+):(.*)$", text, re.MULTILINE))
    assert loaded == {"tls.crt": "/etc/chxd/tls/tls.crt", "tls.key": "/etc/chxd/tls/tls.key"}
    flags = dict(re.findall(r"--(tls-\w+)=%d/([\w.]+)", text))
    assert flags == {"tls-cert": "tls.crt", "tls-key": "tls.key"}


def test_reload_reads_the_files_again(service):
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


@needs_systemd
def test_exposure_is_low():
    """systemd's own score, from 0 (none) to 100, where 20 is still its best class, "OK"."""
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_sections():
    assert set(settings()) == {"Unit", "Service", "Install"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("RuntimeDirectory", "chxd"),
        ("DevicePolicy", "closed"),
        ("DeviceAllow", "char-nvidia* rw"),
        ("Restart", "on-failure"),
        ("KillSignal", "SIGTERM"),
        ("LimitNOFILE", "65536"),
    ],
)
def test_setting(service, name, value):
    assert service[name] == [value]


def test_stop_waits_for_the_drain(service):
    [command] = service["ExecStart"]
    drain = int(re.search(r"--drain-timeout=(\d+)s", command)[1])
    assert int(service["TimeoutStopSec"][0]) >= drain + 5


def test_variables_have_defaults(service):
    """An unset one would be an empty flag."""
    used = set(re.findall(r"\$\{?(\w+)", service["ExecStart"][0]))
    assert used == {each.split("=", 1)[0] for each in service["Environment"]}


def test_listens_on_this_machine_only(service):
    [listen] = [each for each in service["Environment"] if each.startswith("CHXD_LISTEN=")]
    for address in listen.split("=", 1)[1].split(","):
        assert address.startswith(("unix:/run/chxd/", "127.0.0.1:"))


def test_memory_is_bounded_once(service):
    """The unit's limit is what chxd derives its own from: a flag could contradict it."""
    [limit] = service["MemoryMax"]
    assert 50 <= int(re.fullmatch(r"(\d+)%", limit)[1]) <= 95
    assert service["MemorySwapMax"] == ["0"]
    assert "--memory=" not in str(service["ExecStart"])
