"""The status page: who gets to see it, what is on it, and what it does not let in."""

import json
import os
import pathlib
import re
import struct
import subprocess
import time
import urllib.parse
import zlib

import chx
import numpy as np
import pytest

from . import raw_frames
from .browser import Browser
from .observed import Observed, connection, request

TOKEN = "0123456789abcdef+secret&%"
EVIL = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A daemon with a token."""
    folder = tmp_path_factory.mktemp("status")
    (folder / "token").write_text(TOKEN)
    with Observed("--status-listen=127.0.0.1:0", f"--token-file={folder}/token") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def open_page():
    """A daemon whose page asks for nothing."""
    with Observed(
        "--status-listen=localhost:0", "--allow-unauthenticated-loopback", "--slow-command=1ms"
    ) as daemon:
        yield daemon


def log_in(daemon, token=TOKEN, **headers):
    body = urllib.parse.urlencode({"token": token})
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return request(daemon.web[0], "/login", "POST", headers=headers, body=body)


def cookie_of(reply):
    return reply.headers["set-cookie"].split(";")[0]


def test_login(guarded):
    [web] = guarded.web
    first = request(web, "/")
    assert (first.status, first.headers["location"]) == (303, "/login")
    page = request(web, "/login")
    assert page.status == 200 and 'type="password"' in page.body
    wrong = log_in(guarded, TOKEN + "x")
    assert wrong.status == 401 and "not the daemon's token" in wrong.body
    assert "set-cookie" not in wrong.headers
    done = log_in(guarded)
    assert (done.status, done.headers["location"]) == (303, "/")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    session = {"Cookie": cookie_of(done)}
    assert "chxd status" in request(web, "/", headers=session).body
    assert json.loads(request(web, "/status.json", headers=session).body)["serving"] is True
    # A cookie is nobody's after it has been given back.
    out = request(web, "/logout", "POST", headers=session)
    assert out.status == 303 and "Max-Age=0" in out.headers["set-cookie"]
    assert request(web, "/status.json", headers=session).status == 401
    assert TOKEN not in guarded.log_path.read_text()


def test_without_a_login_nothing_is_told(guarded):
    [web] = guarded.web
    for path in ("/status.json", "/", "/metrics", "/login", "/x", "/../status.json", "//"):
        for cookie in ("", "chxd_login=", "chxd_login=" + 32 * "0"):
            reply = request(web, path, headers={"Cookie": cookie})
            assert "native:0" not in reply.body
            assert reply.status in (200, 303, 401, 404)
            assert (reply.status == 200) == (path == "/login")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert "native:0" in request(web, "/status.json", headers=bearer).body


def test_methods(guarded):
    [web] = guarded.web
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "NONSENSE"):
        for path in ("/", "/status.json", "/style.css", "/healthz"):
            reply = request(web, path, method, headers=bearer)
            assert reply.status in (400, 405), (method, path)
    for method in ("PUT", "DELETE"):
        assert request(web, "/login", method).status == 405
    head = request(web, "/login", "HEAD")
    assert head.status == 200 and head.body == "" and int(head.headers["content-length"]) > 0


def test_other_sites_get_nothing(guarded):
    """DNS rebinding, and forms and scripts of other pages."""
    [web] = guarded.web
    cookie = cookie_of(log_in(guarded))
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        reply = request(web, "/status.json", headers={"Cookie": cookie, "Host": host})
        assert reply.status == 421, host
    port = web.rsplit(":", 1)[1]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        reply = request(web, "/status.json", headers={"Cookie": cookie, "Host": host})
        assert reply.status == 200, host
    for origin in ("http://evil.example", "null", f"https://{web}"):
        reply = request(web, "/status.json", headers={"Cookie": cookie, "Origin": origin})
        assert reply.status == 403, origin
        assert log_in(guarded, Origin=origin).status == 403
    assert log_in(guarded, Origin=f"http://{web}").status == 303


def test_headers_keep_others_out(guarded):
    [web] = guarded.web
    for path in ("/login", "/status.json", "/style.css", "/nothing"):
        headers = request(web, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        # "no-referrer" would make the origin of the page's own forms "null".
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_nothing_is_loaded_from_elsewhere(guarded):
    [web] = guarded.web
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    page = request(web, "/", headers=bearer).body
    named = set(re.findall(r'(?:href|src)="([^"]*)"', page))
    assert {"/status.js", "/style.css", "/icon.svg"} == named
    for path in named:
        reply = request(web, path, headers=bearer)
        assert reply.status == 200
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", reply.body), path
    script = request(web, "/status.js").body
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"):
        assert word not in script


def test_what_it_tells(open_page):
    [web] = open_page.web

    def status():
        time.sleep(0.15)  # answers are kept for a tenth of a second
        return json.loads(request(web, "/status.json").body)

    with chx.connect(open_page.address, client_name=EVIL):
        before = status()
        x = chx.array(np.ones((600, 600), np.float32))
        for _ in range(3):
            y = x @ x
        chx.to_numpy(y)
        after = status()
        [mine] = [s for s in after["sessions"] if s["client"] == EVIL]
        assert mine["tenant"] == "default" and mine["attached"] is True
        assert mine["memory_bytes"] >= 2 * 600 * 600 * 4
        [tenant] = after["tenants"]
        assert tenant["name"] == "default" and tenant["sessions"] == after["num_sessions"]
        [device] = after["devices"]
        assert device["name"] == "native:0"
        assert device["memory_bytes"] > device["used_bytes"] >= device["live_bytes"] > 0
        groups = [{g["name"]: g["kernels"] for g in s["op_groups"]} for s in (before, after)]
        assert groups[1]["linalg"] - groups[0]["linalg"] == 3
        slow = [c for c in after["slow_commands"] if c["op"] == "matmul"]
        assert slow and slow[0]["inputs"] == "float32(600, 600), float32(600, 600)"
        assert 0 < slow[0]["seconds"] < 60 and "status_test.py" in slow[0]["location"]


def start_run(session, name="fit", steps=300):
    """Its metrics have hostile names; the first one is the step's number, or NaN at first."""
    w = chx.zeros(())

    def step(x):
        w.__iadd__(chx.mean(x))
        return {EVIL: chx.where(w < 11, w * float("nan"), w), "nan": w * float("nan")}

    return chx.runs.start(
        step, chx.ones(8), batch_size=2, steps=steps, name=name, log_every=1,
        evaluate=(lambda x: chx.sum(x), chx.ones(8)), evaluate_every=10, session=session,
    )  # fmt: skip


def test_runs(open_page):
    [web] = open_page.web

    def status():
        time.sleep(0.15)
        return json.loads(request(web, "/status.json").body)

    assert status()["runs"] == []
    with chx.connect(open_page.address, session="exp-42") as session:
        assert start_run(session).wait(60).reason == "done"
        for i in range(22):
            start_run(session, f"short-{i}", 1).wait(60)
        endless = start_run(session, "endless", 10**9)
        told = status()
        assert told["num_runs"] == 24 and len(told["runs"]) == 20
        goes_on, run = told["runs"][:2]
        assert (goes_on["name"], goes_on["state"]) == ("endless", "running")
        assert (run["name"], run["state"], run["reason"]) == ("fit", "ended", "done")
        assert (run["session_name"], run["tenant"]) == ("exp-42", "default")
        assert run["step"] == run["steps"] == 300 and run["steps_per_epoch"] == 4
        first, nan, evaluation = run["curves"]
        assert [c["metric"] for c in run["curves"]] == [EVIL, "nan", "evaluation/loss"]
        # As many as fit, to the last one, and each the value of its step.
        assert first["steps"] == list(range(3, 301, 3))
        assert first["values"] == [None if step < 11 else step for step in first["steps"]]
        assert set(nan["values"]) == {None}
        assert evaluation["steps"] == [*range(40, 300, 40), 300]
        assert set(evaluation["values"]) == {8}
        endless.stop()
        session.discard()


def test_a_flood_hurts_no_session(guarded):
    [web] = guarded.web
    with chx.connect(guarded.address, token=TOKEN):
        x = chx.ones(3)
        peers = []
        for i in range(150):
            peer = connection(web)
            peer.connect()
            peer.sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" * (i % 2))
            peers.append(peer)
        assert float((x + x).sum()) == 6
        assert request(web, "/healthz").status == 200
        for peer in peers:
            peer.close()
        large = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (
            request(web, "/login", "POST", headers=large, body="token=" + "x" * 5000).status == 413
        )
        assert float((x + x).sum()) == 6


def test_a_new_token_ends_logins(tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with Observed("--status-listen=127.0.0.1:0", f"--token-file={token}") as daemon:
        cookie = {"Cookie": cookie_of(log_in(daemon))}
        assert request(daemon.web[0], "/status.json", headers=cookie).status == 200
        new = "another-secret-0123456789"
        token.write_text(new)
        daemon.soon("certificate and token are read again")
        bearer = {"Authorization": f"Bearer {new}"}

        def works(headers):
            try:
                return request(daemon.web[0], "/status.json", headers=headers).status == 200
            except OSError:
                return False

        end = time.monotonic() + 20
        while not works(bearer) and time.monotonic() < end:
            time.sleep(0.05)
        assert works(bearer) and not works(cookie)
        assert not works({"Authorization": f"Bearer {TOKEN}"})


def test_over_tls(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    key = ["-keyout", f"{tmp_path}/key", "-out", f"{tmp_path}/cert", "-subj", "/CN=localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *key]
        + ["-addext", "subjectAltName=DNS:localhost"],
        check=True,
        capture_output=True,
    )
    flags = [f"--tls-cert={tmp_path}/cert", f"--tls-key={tmp_path}/key"]
    with Observed(
        "--metrics-listen=localhost:0",
        "--status-listen=0.0.0.0:0",
        f"--token-file={tmp_path}/token",
        *flags,
    ) as daemon:
        metrics, status = daemon.web
        roots = f"{tmp_path}/cert"
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert request(metrics, "/metrics", tls_roots=roots).status == 401
        assert "chxd_sessions" in request(metrics, "/metrics", headers=bearer, tls_roots=roots).body
        port = status.rsplit(":", 1)[1]
        body = urllib.parse.urlencode({"token": TOKEN})
        done = request(f"localhost:{port}", "/login", "POST", body=body, tls_roots=roots)
        assert done.status == 303 and "Secure" in done.headers["set-cookie"]
        # Plain text gets no answer.
        with raw_frames.connect(f"127.0.0.1:{port}") as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(1000)


def shoot(browser, name, selector="html"):
    """A picture; kept, for docs/images, in the folder $CHX_SCREENSHOTS."""
    png = browser.picture(selector)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 300 and height >= 100
    # More than one plain surface.
    pixels = zlib.decompress(
        b"".join(
            png[at + 8 : at + 8 + size] for at, size, kind in png_chunks(png) if kind == b"IDAT"
        )
    )
    assert len(set(pixels)) > 20, f"{name} shows nothing"
    if folder := os.environ.get("CHX_SCREENSHOTS"):
        pathlib.Path(folder, name).write_bytes(png)


def png_chunks(png):
    at = 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        yield at, size, kind
        at += 12 + size


def test_in_a_browser(open_page, tmp_path):
    [web] = open_page.web
    with (
        chx.connect(open_page.address, client_name=EVIL),
        chx.connect(open_page.address, session="exp-42") as named,
        Browser(tmp_path) as browser,
    ):
        x = chx.ones((400, 400))
        chx.to_numpy(x @ x)
        assert start_run(named).wait(60).reason == "done"
        endless = start_run(named, "endless", 10**9)
        browser.open(f"http://{web}/")
        browser.wait("document.querySelectorAll('#runs svg path.curve, #runs path').length >= 2")
        browser.wait("document.querySelector('#chart-kernels path.curve') !== null")
        assert browser.run("document.title") == "chxd status"
        text = browser.text()
        # The hostile name is text, and nothing of it has become an element.
        assert EVIL in text and "serving" in text
        assert browser.run("document.querySelectorAll('main img, main script').length") == 0
        for word in ("native:0", "default", "linalg", "exp-42"):
            assert word in text
        runs = browser.run("document.querySelector('#runs').innerText")
        assert "fit" in runs and "ended, done" in runs
        assert "evaluation/loss: 8.000" in runs and "nan: not finite" in runs
        # It is live: the page asks again, and the step of a run that goes on grows.
        step = (
            "(row => Number(row.cells[4].innerText.split(' ')[0].replaceAll(',', '')))"
            "([...document.querySelectorAll('#runs tr')].find(r => r.innerText.includes('endless')))"
        )
        first = browser.run(step)
        assert first > 0
        browser.wait(f"{step} > {first}")
        assert not browser.errors
        endless.stop()
        named.discard()


def train(session, name, step, steps):
    """A model whose loss falls to the noise in its data."""
    draw = np.random.default_rng(7)
    x = draw.standard_normal((512, 16)).astype("float32")
    y = x @ draw.standard_normal((16, 1)) + 0.3 * draw.standard_normal((512, 1))
    w = chx.zeros((16, 1), "float32", device=session.devices[0])

    def one(x, y):
        error = x @ w - y
        w.__isub__(x.T @ error * step)
        return {"loss": chx.mean(error * error)}

    return chx.runs.start(
        one, (chx.array(x), chx.array(y.astype("float32"))), batch_size=64, steps=steps, name=name,
        log_every=8, session=session,
    )  # fmt: skip


def test_pictures(open_page, tmp_path):
    """Of a node at work: those of docs/images."""
    with (
        chx.connect(open_page.address, client_name="eval.py"),
        chx.connect(open_page.address, client_name="train.py", session="resnet50") as named,
        Browser(tmp_path) as browser,
    ):
        runs = [train(named, "fit", 2e-5, 4000), train(named, "slow", 1e-7, 10**6)]
        browser.open(f"http://{open_page.web[0]}/")
        for _ in range(8):
            x = chx.ones((600, 600), device=named.devices[0])
            chx.to_numpy(x @ x)
            browser.wait("document.querySelector('#state').innerText === 'serving'")
            time.sleep(1)
        browser.wait("document.querySelectorAll('#runs path.curve').length >= 2")
        shoot(browser, "status.png")
        shoot(browser, "status-runs.png", "section:has(#runs)")
        for run in runs:
            run.stop()
        named.discard()


def test_a_login_in_a_browser(guarded, tmp_path):
    [web] = guarded.web
    with Browser(tmp_path, 800, 480) as browser:
        browser.open(f"http://{web}/")
        browser.wait("location.pathname === '/login' && document.hasFocus()")
        assert "native:0" not in browser.text()
        shoot(browser, "status-login.png")
        browser.type(TOKEN + "x")
        browser.press_enter()
        browser.wait('document.body.innerText.includes("not the daemon\'s token")')
        assert browser.run("document.querySelector('#token').value") == ""
        browser.run("document.querySelector('#token').focus()")
        browser.type(TOKEN)
        browser.press_enter()
        browser.wait("location.pathname === '/' && document.body.innerText.includes('native:0')")
        # Scripts do not see the cookie.
        assert browser.run("document.cookie") == ""
        browser.run("document.querySelector('form[action=\"/logout\"] button').click()")
        browser.wait("location.pathname === '/login'")
        browser.open(f"http://{web}/")
        browser.wait("location.pathname === '/login'")
        assert not browser.errors
