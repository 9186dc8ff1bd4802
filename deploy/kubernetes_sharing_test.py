"""The overlay for whole nodes, and the components: each alone and all together."""

import copy
import pathlib
import re

import kubernetes_validate
import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parent
VERSIONS = ["1.27", "1.31"]
COMPONENTS = sorted(path.name for path in (DEPLOY / "kubernetes/components").iterdir())
# Those that a daemon without a network cannot use, and its own.
NOT_ON_NODES = {
    "autoscaling",
    "cert-manager",
    "cross-namespace",
    "metrics",
    "tenants",
}
ON_NODES_ONLY = {"node-metrics"}
# By their own controllers' schemas, which kubernetes_validate does not have.
FOREIGN = {"Certificate", "PodMonitor", "PrometheusRule", "ServiceMonitor"}


@pytest.fixture
def render(manifests, kustomize):
    """render(base, components) -> {kind: object}; NetworkPolicy and others occur once."""

    def build(base, components):
        folder = manifests / "mine"
        folder.mkdir(exist_ok=True)
        text = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"../{base}"],
            "components": [f"../components/{name}" for name in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
        objects = kustomize(folder)
        by_kind = {each["kind"]: each for each in objects}
        assert len(by_kind) == len(objects)
        return by_kind

    return build


def workload_of(objects):
    [workload] = [objects[kind] for kind in ["StatefulSet", "DaemonSet"] if kind in objects]
    return workload


def pod_of(objects):
    return workload_of(objects)["spec"]["template"]["spec"]


def args_of(objects):
    [container] = pod_of(objects)["containers"]
    return container["args"]


def check(objects):
    for manifest in objects.values():
        if manifest["kind"] in FOREIGN:
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
    pod = pod_of(objects)
    volumes = {each["name"] for each in pod["volumes"]}
    claims = workload_of(objects)["spec"].get("volumeClaimTemplates", [])
    volumes |= {each["metadata"]["name"] for each in claims}
    [container] = pod["containers"]
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert set(mounts.values()) == volumes, "what is mounted is there, and what is there is mounted"
    flags = [arg.split("=")[0] for arg in container["args"]]
    assert len(set(flags)) == len(flags)
    # Each file that a flag names is in a volume.
    for arg in container["args"]:
        for path in re.findall(r"[=:](/[^,]+)", arg):
            assert any(path == mount or path.startswith(mount + "/") for mount in mounts), arg


@pytest.mark.parametrize("base", ["base", "overlays/cpu", "overlays/gpu-operator"])
@pytest.mark.parametrize("name", [each for each in COMPONENTS if each not in ON_NODES_ONLY])
def test_each_component_alone(render, base, name):
    needs = ["tenants"] if name == "service-accounts" else []
    objects = render(base, [*needs, name])
    check(objects)
    assert objects != render(base, needs), "it changes something"


@pytest.mark.parametrize("base", ["base", "overlays/cpu"])
def test_all_components_in_any_order(render, base):
    others = {"tenants", "service-accounts"} | ON_NODES_ONLY
    rest = [name for name in COMPONENTS if name not in others]
    first = None
    for order in [rest, rest[::-1], *(rest[i:] + rest[:i] for i in (2, 4))]:
        objects = render(base, [*order, "tenants", "service-accounts"])
        check(objects)
        names = sorted(args_of(objects))
        first = first or names
        assert names == first


def test_component_stops_when_the_base_changes(render, manifests):
    path = manifests / "base/statefulset.yaml"
    path.write_text(path.read_text().replace("--token-file=", "--token-path="))
    with pytest.raises(Exception, match="non-zero exit status"):
        render("base", ["tenants"])


def test_a_daemon_on_each_node(render):
    on_nodes = [name for name in COMPONENTS if name not in NOT_ON_NODES]
    for components in [[], *([name] for name in on_nodes), on_nodes]:
        check(render("overlays/node", components))
    base, node = render("base", []), render("overlays/node", [])
    assert set(node) == {"DaemonSet", "PodDisruptionBudget", "NetworkPolicy"}
    policy = node["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert not policy.get("ingress") and not policy.get("egress")
    args = dict(arg[2:].split("=", 1) for arg in args_of(node))
    assert args["listen"] == "unix:/run/chxd/chxd.sock"
    assert args["tenants"] and not args.keys() & {"token-file", "tls-cert", "tls-key"}
    group = int(args["socket-group"])
    pod = pod_of(node)
    assert pod["securityContext"]["supplementalGroups"] == [group]
    # What is not said here is as in the base: limits, probes, hardening.
    kept = ["resources", "securityContext", "readinessProbe", "livenessProbe", "startupProbe"]
    for key in kept:
        assert pod["containers"][0][key] == pod_of(base)["containers"][0][key]
    [folder] = pod["initContainers"]
    assert folder["image"] == pod["containers"][0]["image"]
    assert folder["command"][:6] == ["install", "-d", "-o", "10001", "-g", str(group)]
    assert folder["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "FOWNER"],
    }
    assert pod["securityContext"]["runAsUser"] == 10001


def test_a_client_of_another_namespace_finds_the_daemon_of_its_node(render):
    client = yaml.safe_load((DEPLOY / "kubernetes/examples/client.yaml").read_text())
    for version in VERSIONS:
        kubernetes_validate.validate(client, version, strict=True)
    node = render("overlays/node", ["service-accounts"])
    pod, spec = pod_of(node), client["spec"]
    assert spec["securityContext"]["supplementalGroups"] == [10002]
    assert spec["securityContext"]["runAsUser"] != pod["securityContext"]["runAsUser"]
    path = {each["name"]: each.get("hostPath", {}).get("path") for each in spec["volumes"]}["chxd"]
    assert path in {each.get("hostPath", {}).get("path") for each in pod["volumes"]}
    [container] = spec["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert f"--listen={env['CHX_SERVER']}" in args_of(node)
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    [projected] = [each["projected"] for each in spec["volumes"] if "projected" in each]
    [token] = [source["serviceAccountToken"] for source in projected["sources"]]
    assert token["audience"] == "chxd"
    assert env["CHX_TOKEN_FILE"] == f"{mounts['chxd-token']}/{token['path']}"


def test_certificate_is_the_one_that_the_daemon_reads(render):
    objects = render("base", ["cert-manager"])
    spec = objects["Certificate"]["spec"]
    assert spec["secretName"] in {
        each["secret"]["secretName"] for each in pod_of(objects)["volumes"] if "secret" in each
    }
    service = objects["Service"]["metadata"]["name"]
    replicas = render("base", ["autoscaling"])["HorizontalPodAutoscaler"]["spec"]["maxReplicas"]
    wanted = {service, *(f"chxd-{i}.{service}" for i in range(replicas))}
    assert wanted == set(spec["dnsNames"])
    assert spec["issuerRef"]["kind"] in {"Issuer", "ClusterIssuer"}
    hours = {key: int(spec[key].rstrip("h")) for key in ["duration", "renewBefore"]}
    assert 0 < hours["renewBefore"] < hours["duration"]


def test_other_namespaces_come_in_only_where_asked_for(render):
    [rule] = render("base", ["cross-namespace"])["NetworkPolicy"]["spec"]["ingress"]
    own, other = rule["from"]
    assert own == {"podSelector": {"matchLabels": {"chxd-client": "true"}}}
    # Both in one entry: a pod has to have its label, and its namespace too.
    assert set(other) == {"podSelector", "namespaceSelector"}
    [plain] = render("base", [])["NetworkPolicy"]["spec"]["ingress"]
    assert plain["from"] == [own]


def test_prometheus_reaches_the_port_that_the_daemon_listens_on(render):
    objects = render("base", ["metrics"])
    [container] = pod_of(objects)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert f"--metrics-listen=0.0.0.0:{ports['metrics']}" in container["args"]
    service = {each["name"]: each for each in objects["Service"]["spec"]["ports"]}
    assert service["metrics"]["targetPort"] == "metrics"
    clients, prometheus = objects["NetworkPolicy"]["spec"]["ingress"]
    assert [each["port"] for each in clients["ports"]] == ["chxd"]
    assert [each["port"] for each in prometheus["ports"]] == ["metrics"]
    monitor = objects["ServiceMonitor"]["spec"]
    assert (
        monitor["selector"]["matchLabels"].items()
        <= objects["Service"]["metadata"]["labels"].items()
    )
    [endpoint] = monitor["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == (
        "metrics",
        "/metrics",
        "https",
    )
    assert endpoint["tlsConfig"]["serverName"] == objects["Service"]["metadata"]["name"]
    assert "insecureSkipVerify" not in endpoint["tlsConfig"]
    assert endpoint["authorization"]["type"] == "Bearer"


def test_prometheus_reaches_the_daemons_of_nodes(render):
    objects = render("overlays/node", ["node-metrics"])
    [container] = pod_of(objects)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert f"--metrics-listen=0.0.0.0:{ports['metrics']}" in container["args"]
    # Whoever reaches the port may read it: only Prometheus does.
    assert "--metrics-open" in container["args"]
    [rule] = objects["NetworkPolicy"]["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == ["metrics"]
    [source] = rule["from"]
    assert source["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "monitoring"
    }
    monitor = objects["PodMonitor"]["spec"]
    labels = workload_of(objects)["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    # The rules say job="chxd".
    assert labels[monitor["jobLabel"]] == "chxd"
    [endpoint] = monitor["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")
    assert "Service" not in objects and "ServiceMonitor" not in objects


@pytest.mark.parametrize(
    ("base", "metrics"),
    [("base", "metrics"), ("overlays/cpu", "metrics"), ("overlays/node", "node-metrics")],
)
def test_dashboards_and_rules_are_those_of_observability(render, base, metrics):
    objects = render(base, [metrics, "dashboards"])
    check(objects)
    config = objects["ConfigMap"]
    assert config["metadata"]["name"] == "chxd-dashboard"
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    [(name, text)] = config["data"].items()
    assert name.endswith(".json")
    assert text == (DEPLOY / "observability/dashboard.json").read_text()
    rule = objects["PrometheusRule"]
    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    alerts = yaml.safe_load((DEPLOY / "observability/alerts.yaml").read_text())
    assert rule["spec"] == alerts
    # Beside them all is as without.
    del objects["ConfigMap"], objects["PrometheusRule"]
    assert objects == render(base, [metrics])


def test_autoscaling_adds_daemons_and_removes_none(render):
    objects = render("base", ["autoscaling"])
    scaler = objects["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["kind"] == workload_of(objects)["kind"]
    assert scaler["behavior"]["scaleDown"] == {"selectPolicy": "Disabled"}
    assert "replicas" not in workload_of(objects)["spec"]


def test_state_has_room_and_time(render):
    base, objects = render("base", []), render("base", ["state"])
    before, after = pod_of(base), pod_of(objects)
    assert after["terminationGracePeriodSeconds"] > before["terminationGracePeriodSeconds"]
    [claim] = workload_of(objects)["spec"]["volumeClaimTemplates"]
    [container] = after["containers"]
    assert {"name": "state", "mountPath": "/var/lib/chxd"} in container["volumeMounts"]
    memory = int(container["resources"]["limits"]["memory"].removesuffix("Gi"))
    storage = claim["spec"]["resources"]["requests"]["storage"]
    assert int(storage.removesuffix("Gi")) >= 2 * memory


def test_state_of_nodes_is_the_daemons_alone(render):
    node, objects = render("overlays/node", []), render("overlays/node", ["state"])
    before, after = pod_of(node), pod_of(objects)
    assert "volumeClaimTemplates" not in workload_of(objects)["spec"]
    assert after["terminationGracePeriodSeconds"] > before["terminationGracePeriodSeconds"]
    [volume] = [each for each in after["volumes"] if each not in before["volumes"]]
    [container] = after["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert f"--state-dir={mount['mountPath']}" in container["args"]
    # Not in the folder that clients' pods mount.
    sockets = [each["hostPath"]["path"] for each in before["volumes"] if "hostPath" in each]
    assert all(not volume["hostPath"]["path"].startswith(path) for path in sockets)
    [folder] = [each for each in after["initContainers"] if each not in before["initContainers"]]
    user = str(after["securityContext"]["runAsUser"])
    assert folder["image"] == container["image"]
    # The daemon refuses a folder that others may write to.
    command = ["install", "-d", "-o", user, "-g", user, "-m", "0700", mount["mountPath"]]
    assert folder["command"] == command
    socket_folder = before["initContainers"][0]
    assert folder["securityContext"] == socket_folder["securityContext"]
    assert folder["volumeMounts"] == [{"name": volume["name"], "mountPath": mount["mountPath"]}]


@pytest.mark.parametrize("base", ["base", "overlays/node"])
def test_data_cannot_be_written(render, base):
    """Neither through the mount nor by the claim; the daemon has no other path to it."""
    before, after = pod_of(render(base, [])), pod_of(render(base, ["data"]))
    [volume] = [each for each in after["volumes"] if each not in before["volumes"]]
    claim = volume.pop("persistentVolumeClaim")
    assert claim == {"claimName": "chxd-data", "readOnly": True}
    assert f"the claim `{claim['claimName']}`" in (DEPLOY / "README.md").read_text()
    [container] = after["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert mount["readOnly"] is True
    assert f"--data-root={mount['mountPath']}" in container["args"]
    # No volume lies in it, and it lies in none that clients or secrets are in.
    for other in container["volumeMounts"]:
        if other is not mount:
            paths = sorted([f"{other['mountPath']}/", f"{mount['mountPath']}/"], key=len)
            assert not paths[1].startswith(paths[0])


def test_the_example_of_a_pod_is_no_part_of_any_kustomization(kustomize, manifests):
    for base in ["base", *(f"overlays/{each}" for each in ["cpu", "gpu-operator", "node"])]:
        kinds = [each["kind"] for each in copy.deepcopy(kustomize(manifests / base))]
        assert "Pod" not in kinds
