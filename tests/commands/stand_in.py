#!/usr/bin/python3
"""Stands in for bazel, docker, systemctl and kubectl, by the name it is called by.

What is checked is that the arguments are right and that the files that they name are there. Built,
run or applied is nothing, except that `systemctl` starts the real daemon as the unit says, `bazel
build` lays out what the test's own build has made of the same labels, and `kubectl` is the real one
without a cluster (--dry-run=client, kustomize). Wrong arguments end with status 1 and a reason.

$STAND_IN is a folder: config.json says what there is, calls has a line for each call.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(os.environ["STAND_IN"])
CONFIG = json.loads((FOLDER / "config.json").read_text())
UNITS = pathlib.Path("/etc/systemd/system")


def fail(why):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {why}")


def check(condition, why):
    if not condition:
        fail(why)


def known_labels(words):
    for word in words:
        if word.startswith("//"):
            check(word in CONFIG["labels"], f"the test has not built {word}")


def bazel(arguments):
    check(arguments[0] == "build", f"expects build, got {arguments[0]}")
    for argument in arguments[1:]:
        if config := re.fullmatch(r"--config=(\w+)", argument):
            text = pathlib.Path(".bazelrc").read_text()
            check(f"\nbuild:{config[1]} " in text, f".bazelrc has no --config={config[1]}")
        else:
            check(argument in CONFIG["labels"], f"the test has not built {argument}")
            for name, path in CONFIG["labels"][argument].items():
                place = pathlib.Path(".bazel/bin") / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
                place.chmod(0o755)


def docker_build(arguments):
    parser = argparse.ArgumentParser("docker build")
    parser.add_argument("-f", required=True)
    parser.add_argument("-t", required=True)
    parser.add_argument("context")
    given = parser.parse_args(arguments)
    text = pathlib.Path(given.f).read_text().replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["COPY"] and not words[1].startswith("--from="):
            for source in words[1:-1]:
                check((pathlib.Path(given.context) / source).exists(), f"there is no {source}")
        elif words[:1] == ["RUN"]:
            known_labels(words)
    [volume] = re.findall(r'^VOLUME \["(.*)"\]$', text, re.MULTILINE)
    (FOLDER / f"image {given.t}").write_text(volume)


def docker_run(arguments):
    parser = argparse.ArgumentParser("docker run")
    for flag in ["--gpus", "--cap-drop", "--security-opt", "--stop-timeout", "-v"]:
        parser.add_argument(flag)
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("image")
    given = parser.parse_args(arguments)
    image = FOLDER / f"image {given.image}"
    check(image.exists(), f"no command before has built {given.image}")
    check(given.v.split(":")[1] == image.read_text(), f"{given.v} is not the image's volume")


def docker(arguments):
    {"build": docker_build, "run": docker_run}[arguments[0]](arguments[1:])


def settings():
    """The unit's [Service] with its drop-ins: (name, value) in order."""
    files = [UNITS / "chxd.service", *sorted((UNITS / "chxd.service.d").glob("*.conf"))]
    lines = "\n".join(file.read_text().replace("\\\n", " ") for file in files).splitlines()
    return [tuple(line.split("=", 1)) for line in lines if re.match(r"\w+=", line)]


def start():
    """The daemon as systemd would start it, without its sandbox."""
    values = settings()
    credentials = pathlib.Path("/run/credentials/chxd.service")
    credentials.mkdir(parents=True, exist_ok=True)
    for name, path in [value.split(":") for key, value in values if key == "LoadCredential"]:
        (credentials / name).write_bytes(pathlib.Path(path).read_bytes())
    variables = {}
    for text in [value for key, value in values if key == "Environment"]:
        variables.update(word.split("=", 1) for word in shlex.split(text))
    for path in [value for key, value in values if key == "EnvironmentFile"]:
        file = pathlib.Path(path.removeprefix("-"))
        if file.exists():
            variables.update(line.split("=", 1) for line in file.read_text().splitlines())
    [folder] = [value for key, value in values if key == "RuntimeDirectory"]
    pathlib.Path("/run", folder).mkdir(mode=0o700, exist_ok=True)
    [command] = [value for key, value in values if key == "ExecStart"]
    command = re.sub(r"(?<!\{)\$(\w+)", lambda match: variables[match[1]], command)
    command = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], command)
    log = FOLDER / "daemon.log"
    with log.open("w") as file:
        daemon = subprocess.Popen(
            shlex.split(command.replace("%d", str(credentials))), stdout=file, stderr=file
        )
    while "chxd ready" not in log.read_text():
        check(daemon.poll() is None, f"chxd has ended: {log.read_text()}")
        time.sleep(0.01)
    (FOLDER / "daemon.pid").write_text(str(daemon.pid))


def stop():
    pid = FOLDER / "daemon.pid"
    if pid.exists():
        stat = pathlib.Path("/proc", pid.read_text(), "stat")
        os.kill(int(pid.read_text()), signal.SIGTERM)
        pid.unlink()
        while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.01)


def systemctl(arguments):
    if arguments == ["daemon-reload"]:
        if CONFIG["systemd-analyze"]:
            command = ["systemd-analyze", "verify", "--man=no", UNITS / "chxd.service"]
            done = subprocess.run(command, capture_output=True, text=True)
            check(done.stdout + done.stderr == "", done.stdout + done.stderr)
    elif arguments == ["enable", "--now", "chxd"]:
        start()
    elif arguments == ["restart", "chxd"]:
        stop()
        start()
    else:
        fail(f"the test knows no {arguments}")


def kubectl(arguments):
    real = CONFIG["kubectl"]
    if arguments[0] == "create":
        command = [real, *arguments, "--dry-run=client", "-o", "yaml"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        name = arguments[3] if arguments[1] == "secret" else arguments[2]
        (FOLDER / f"{arguments[1]} {name}").write_bytes(output)
    elif arguments[:2] == ["apply", "-k"]:
        command = [real, "kustomize", *arguments[2:]]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        (FOLDER / "applied").write_bytes(output)
    elif arguments == ["get", "--raw", "/openid/v1/jwks"]:
        print('{"keys": []}')
    elif arguments[:2] == ["patch", "node"]:
        check(arguments[3:5] == ["--subresource=status", "--type=merge"], f"got {arguments}")
        [patch] = arguments[5:]
        (FOLDER / "patched").write_text(patch.removeprefix("--patch="))
    else:
        fail(f"the test knows no {arguments}")


if __name__ == "__main__":
    name = pathlib.Path(sys.argv[0]).name
    with (FOLDER / "calls").open("a") as calls:
        print(json.dumps([name, *sys.argv[1:]]), file=calls)
    {"bazel": bazel, "docker": docker, "systemctl": systemctl, "kubectl": kubectl}[name](
        sys.argv[1:]
    )
