"""The Kubernetes manifests: valid, consistent, hardened. Needs no cluster and no network."""

import copy
import pathlib
import re
import subprocess

import kubernetes_validate
import pytest

README = pathlib.Path(__file__).with_name("README.md")
# The oldest that we promise and the newest that the validator knows.
VERSIONS = ["1.27", "1.31"]


def validate(manifest, version=VERSIONS[-1]):
    """Refuses unknown fields too, as the API server does with --validate=strict."""
    kubernetes_validate.validate(manifest, version, strict=True)


def pod_of(objects):
    return objects["StatefulSet"]["spec"]["template"]["spec"]


def container_of(objects):
    [container] = pod_of(objects)["containers"]
    return container


def flags_of(objects):
    return dict(arg[2:].split("=", 1) for arg in container_of(objects)["args"])


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_follow_the_schemas(objects, version):
    assert set(objects) == {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    for manifest in objects.values():
        validate(manifest, version)


def misspell(objects):
    container = container_of(objects)
    container["readynessProbe"] = container.pop("readinessProbe")
    return objects["StatefulSet"]


def text_for_a_number(objects):
    objects["StatefulSet"]["spec"]["replicas"] = "one"
    return objects["StatefulSet"]


def no_selector(objects):
    del objects["StatefulSet"]["spec"]["selector"]
    return objects["StatefulSet"]


def list_for_a_map(objects):
    objects["Service"]["spec"]["selector"] = ["chxd"]
    return objects["Service"]


def misplace(objects):
    objects["NetworkPolicy"]["spec"]["ports"] = [{"port": 50051}]
    return objects["NetworkPolicy"]


@pytest.mark.parametrize(
    "break_it", [misspell, text_for_a_number, no_selector, list_for_a_map, misplace]
)
def test_broken_objects_do_not(objects, break_it):
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(break_it(objects))


def test_broken_kustomization_is_not_rendered(manifests, kustomize):
    path = manifests / "base" / "kustomization.yaml"
    path.write_text(path.read_text().replace("resources:", "resource:"))
    with pytest.raises(subprocess.CalledProcessError):
        kustomize(manifests / "base")


def test_overlay_stops_when_the_base_changes(manifests, kustomize):
    path = manifests / "base" / "statefulset.yaml"
    path.write_text(path.read_text().replace("            - --devices=native:0,cuda:0\n", ""))
    with pytest.raises(subprocess.CalledProcessError):
        kustomize(manifests / "overlays" / "cpu")


def test_overlay_only_takes_the_gpu_away(rendered):
    base, cpu = rendered["base"], rendered["overlays/cpu"]
    assert flags_of(base)["devices"] == "native:0,cuda:0"
    assert flags_of(cpu)["devices"] == "native:0"
    assert "gpu" not in str(cpu) and "cuda" not in str(cpu)
    expected = copy.deepcopy(base)
    assert container_of(expected)["resources"]["limits"].pop("nvidia.com/gpu") == 1
    del pod_of(expected)["tolerations"]
    container_of(expected)["args"][0] = "--devices=native:0"
    container_of(expected)["image"] = container_of(base)["image"].replace("-cuda", "-cpu")
    assert cpu == expected


def test_images_have_a_version_and_no_host(objects):
    assert re.fullmatch(r"chxd:\d+\.\d+\.\d+-(cuda|cpu)", container_of(objects)["image"])


def test_no_namespace(objects):
    assert not any("namespace" in each["metadata"] for each in objects.values())


def test_selectors_find_the_pod(objects):
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["StatefulSet"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector and selector.items() <= labels.items()
    assert objects["StatefulSet"]["spec"]["serviceName"] == objects["Service"]["metadata"]["name"]


def test_ports_are_the_one_that_chxd_listens_on(objects):
    [port] = container_of(objects)["ports"]
    tcp = [each for each in flags_of(objects)["listen"].split(",") if not each.startswith("unix:")]
    assert tcp == [f"0.0.0.0:{port['containerPort']}"]
    [service_port] = objects["Service"]["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]
    [rule] = objects["NetworkPolicy"]["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    assert rule["from"]


def test_nothing_goes_out(objects):
    policy = objects["NetworkPolicy"]["spec"]
    assert "Egress" in policy["policyTypes"] and not policy.get("egress")


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_an_address_that_chxd_listens_on(objects, name):
    probe = container_of(objects)[name]
    program, flag, address = probe["exec"]["command"]
    assert (program, flag) == ("/usr/local/bin/chxd", "--health")
    assert address in flags_of(objects)["listen"].split(",")
    # chxd itself gives up after two.
    assert probe["timeoutSeconds"] > 2


def test_pod_is_hardened(objects):
    pod, container = pod_of(objects), container_of(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not any(pod.get(key) for key in ["hostNetwork", "hostPID", "hostIPC"])
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


UNITS = {"Ki": 10, "Mi": 20, "Gi": 30, "KiB": 10, "MiB": 20, "GiB": 30}


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) << UNITS[unit]


def test_sessions_fit_the_daemon_and_the_daemon_its_container(objects):
    """What chxd may hold leaves an eighth of the container to what it does not count."""
    resources, flags = container_of(objects)["resources"], flags_of(objects)
    container = size(resources["limits"]["memory"])
    # Nothing is lent: the kernel must not look for a victim on the node.
    assert size(resources["requests"]["memory"]) == container
    in_memory = sum(
        size(volume["emptyDir"]["sizeLimit"])
        for volume in pod_of(objects)["volumes"]
        if volume.get("emptyDir", {}).get("medium") == "Memory"
    )
    memory, session = size(flags["memory"]), size(flags["session-memory"])
    assert memory + container // 8 <= container
    assert in_memory < container // 1000
    # One full session, or two, leave room for others.
    assert 3 * session <= memory
    readme = README.read_text()
    assert f"`--memory={flags['memory']}`" in readme
    assert f"`--session-memory={flags['session-memory']}`" in readme


def test_pod_waits_for_the_drain(objects):
    drain = seconds(flags_of(objects)["drain-timeout"])
    assert pod_of(objects)["terminationGracePeriodSeconds"] >= drain + 5


def test_files_are_in_volumes(objects):
    """What chxd reads is a secret's, by its key; the socket's folder can be written."""
    volumes = {each["name"]: each for each in pod_of(objects)["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in container_of(objects)["volumeMounts"]}
    assert sorted(mounts.values()) == sorted(volumes)
    flags, readme = flags_of(objects), README.read_text()
    for flag in ["tls-cert", "tls-key", "token-file"]:
        folder, key = flags[flag].rsplit("/", 1)
        secret = volumes[mounts[folder]]["secret"]
        # Readable for the group, fsGroup's, and not for others.
        assert secret["defaultMode"] == 0o440
        [command] = re.findall(
            rf"kubectl create secret .*\b{secret['secretName']}\b[^`]*?[^\\]\n", readme
        )
        made = ["tls.crt", "tls.key"] if " secret tls " in command else [f"--from-file={key}="]
        assert key in made or made[0] in command
    [socket] = [each for each in flags["listen"].split(",") if each.startswith("unix:")]
    assert "emptyDir" in volumes[mounts[socket[len("unix:") :].rsplit("/", 1)[0]]]


def test_gpu_operator_overlay_asks_for_the_runtime_and_a_driver_for_cuda_13(rendered):
    base, gpu = rendered["base"], copy.deepcopy(rendered["overlays/gpu-operator"])
    pod = pod_of(gpu)
    assert pod.pop("runtimeClassName") == "nvidia"
    [term] = pod.pop("affinity")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    [expression] = term["matchExpressions"]
    assert expression["operator"] == "Gt" and expression["values"] == ["579"]
    assert gpu == base
    text = README.read_text()
    for said in ["R580", "runtimeClassName: nvidia", "overlays/gpu-operator", expression["key"]]:
        assert said in text, said
    dockerfile = (README.parent / "docker/Dockerfile.cuda").read_text()
    assert "nvidia/cuda:13." in dockerfile, "another CUDA needs another driver"
