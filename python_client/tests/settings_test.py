"""What a session may ask of libraries: checked here and in the daemon, and each session's own."""

import chx
import pytest

DEFAULTS = {
    "use_cudnn": True,
    "cudnn_deterministic": False,
    "autotune": False,
    "max_workspace_size": 256 << 20,
    "tf32": False,
    "cudnn_tf32": True,
}


@pytest.fixture
def session(monkeypatch):
    monkeypatch.delenv("CHAINERX_CUDNN_MAX_WORKSPACE_SIZE", raising=False)
    with chx.connect(devices="native:0") as session:
        yield session


def test_settings_change_and_reach_the_daemon(session):
    assert session.settings == DEFAULTS
    session.configure(cudnn_deterministic=True, max_workspace_size=0, autotune=True)
    session.configure(use_cudnn=False, tf32=True, cudnn_tf32=False)
    assert session.settings == {
        "use_cudnn": False,
        "cudnn_deterministic": True,
        "autotune": True,
        "max_workspace_size": 0,
        "tf32": True,
        "cudnn_tf32": False,
    }
    session.synchronize()
    assert session.take_errors() == []
    assert float(chx.conv(chx.ones((1, 1, 2, 2)), chx.ones((1, 1, 2, 2))).reshape(())) == 4


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"cudnn": True}, ValueError),
        ({"autotune": 2}, ValueError),
        ({"autotune": 1.0}, TypeError),
        ({"autotune": "yes"}, TypeError),
        ({"max_workspace_size": -1}, ValueError),
    ],
)
def test_others_are_refused_at_the_call(session, settings, error):
    with pytest.raises(error):
        session.configure(**settings)
    assert session.settings == DEFAULTS


def test_the_environment_gives_chainerx_its_workspace(session, monkeypatch):
    monkeypatch.setenv("CHAINERX_CUDNN_MAX_WORKSPACE_SIZE", "12345")
    with chx.connect(session.address) as other:
        assert other.settings["max_workspace_size"] == 12345
    assert session.settings == DEFAULTS
