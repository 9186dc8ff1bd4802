"""The overlay whose daemons form process groups with each other, and the Job of their ranks."""

import fnmatch
import pathlib

import kubernetes_validate
import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def objects(tmp_path_factory, kustomize):
    from conftest import copied

    folder = copied(tmp_path_factory.mktemp("distributed")) / "overlays/distributed"
    return {each["kind"]: each for each in kustomize(folder)}


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load((DEPLOY / "kubernetes/examples/distributed-job.yaml").read_text())


@pytest.fixture(scope="module")
def flags(objects):
    [container] = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(arg[2:].split("=", 1) for arg in container["args"])


@pytest.mark.parametrize("version", ["1.27", "1.31"])
def test_objects_follow_the_schemas(objects, job, version):
    for manifest in [*objects.values(), job]:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_daemons_find_each_other(objects, flags):
    workload, service = objects["StatefulSet"], objects["Service"]
    pod = workload["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert {each["name"] for each in container["env"]} == {"POD_NAME"}
    name = service["metadata"]["name"]
    assert workload["spec"]["serviceName"] == name and service["spec"]["clusterIP"] == "None"
    [port] = [each["port"] for each in service["spec"]["ports"] if each["name"] == "peers"]
    assert flags["peer-address"] == f"$(POD_NAME).{name}:{port}"
    assert flags["peer-listen"] == f"0.0.0.0:{port}"
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["peers"] == port
    for number in range(workload["spec"]["replicas"]):
        address = flags["peer-address"].replace("$(POD_NAME)", f"{name}-{number}")
        assert fnmatch.fnmatch(address, flags["peers"])
    assert not fnmatch.fnmatch(f"metadata:{port}", flags["peers"])
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    path = pathlib.PurePath(flags["peer-secret-file"])
    [volume] = [each for each in pod["volumes"] if each["name"] == mounts[str(path.parent)]]
    assert volume["secret"]["secretName"] == "chxd-peers"
    command = (DEPLOY / "kubernetes/overlays/distributed/kustomization.yaml").read_text()
    assert f"generic chxd-peers --from-literal={path.name}=" in command


def test_only_daemons_reach_the_port_for_daemons(objects):
    spec = objects["NetworkPolicy"]["spec"]
    daemons = objects["StatefulSet"]["spec"]["selector"]["matchLabels"]
    for rules, side in ((spec["ingress"], "from"), (spec["egress"], "to")):
        [rule] = [each for each in rules if {"protocol": "TCP", "port": "peers"} in each["ports"]]
        assert rule[side] == [{"podSelector": {"matchLabels": daemons}}]
        assert len(rule["ports"]) == 1


def test_ranks_are_beside_their_daemons(objects, job, flags):
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    replicas = objects["StatefulSet"]["spec"]["replicas"]
    assert spec["completions"] == spec["parallelism"] == replicas
    [container] = spec["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["WORLD_SIZE"] == str(replicas)
    assert fnmatch.fnmatch(env["CHX_GROUP_ADDRESS"], flags["peers"])
    port = flags["listen"].rsplit(":", 1)[1]
    assert env["CHX_SERVER"] == f"chxd-$(INDEX).chxd:{port}"
    # Variables are replaced where they come after what they name.
    assert list(env).index("INDEX") < list(env).index("CHX_SERVER")
    [client] = objects["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    labels = client["podSelector"]["matchLabels"]
    assert labels.items() <= spec["template"]["metadata"]["labels"].items()
