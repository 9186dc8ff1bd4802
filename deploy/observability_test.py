"""Prometheus' own promtool reads the rules and the dashboard's queries; the rules fire when they should."""

import json
import pathlib
import re
import subprocess

import jsonschema
import pytest
import yaml

OBSERVABILITY = pathlib.Path(__file__).parent / "observability"
PROMTOOL = pathlib.Path("~/.cache/chxd/bin/promtool").expanduser()
ALERTS = OBSERVABILITY / "alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((OBSERVABILITY / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def promtool(*arguments):
    assert PROMTOOL.exists(), f"no {PROMTOOL}: tools/setup.sh gets it"
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def check_queries(path, queries):
    """As rules, which promtool parses."""
    rules = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries)]
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    return promtool("check", "rules", path)


def test_the_rules():
    code, said = promtool("check", "rules", "--lint-fatal", ALERTS)
    assert code == 0 and f"{len(RULES)} rules found" in said, said


def test_the_queries_of_the_dashboard(tmp_path):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    assert len(queries) >= 30
    # What Grafana puts in: a list of alternatives, and an interval.
    filled = [
        query.replace("$instance", "a|b").replace("$tenant", ".*").replace("$__rate_interval", "1m")
        for query in queries
    ]
    assert not any("$" in query for query in filled)
    code, said = check_queries(tmp_path / "queries.yaml", filled)
    assert code == 0, said
    # One that is no query is found.
    code, said = check_queries(tmp_path / "wrong.yaml", [*filled, "sum(rate(x[1m])"])
    assert code != 0 and "parse error" in said


# By alert: series, with their values minute by minute, for which it fires at the end; and values
# for which it does not.
ON = 'job="chxd",instance="node:9464"'
FIRING = {
    "ChxdDown": ({f"up{{{ON}}}": "1 1 0x30"}, {f"up{{{ON}}}": "1x32"}),
    "ChxdRestarted": (
        {f"process_start_time_seconds{{{ON}}}": "100x20 1300x12"},
        {f"process_start_time_seconds{{{ON}}}": "100x32"},
    ),
    "ChxdMemoryNearLimit": (
        {f"chxd_memory_used_bytes{{{ON}}}": "96x32", f"chxd_memory_limit_bytes{{{ON}}}": "100x32"},
        {f"chxd_memory_used_bytes{{{ON}}}": "90x32", f"chxd_memory_limit_bytes{{{ON}}}": "100x32"},
    ),
    "ChxdDeviceFull": (
        {
            f'chxd_device_used_bytes{{{ON},device="cuda:0"}}': "96x32",
            f'chxd_device_memory_bytes{{{ON},device="cuda:0"}}': "100x32",
        },
        {
            f'chxd_device_used_bytes{{{ON},device="cuda:0"}}': "50x32",
            f'chxd_device_memory_bytes{{{ON},device="cuda:0"}}': "100x32",
        },
    ),
    "ChxdOutOfMemoryErrors": (
        {f'chxd_errors_total{{{ON},tenant="a",kind="memory"}}': "0+60x32"},
        {f'chxd_errors_total{{{ON},tenant="a",kind="index"}}': "0+60x32"},
    ),
    "ChxdDeviceErrors": (
        {f'chxd_errors_total{{{ON},tenant="a",kind="device"}}': "0+1x32"},
        {f'chxd_errors_total{{{ON},tenant="a",kind="device"}}': "7x32"},
    ),
    "ChxdQueueLong": (
        {f"chxd_turn_waiting{{{ON}}}": "9x32"},
        {f"chxd_turn_waiting{{{ON}}}": "8x32"},
    ),
    "ChxdRefusals": (
        {f'chxd_refusals_total{{{ON},reason="token"}}': "0+60x32"},
        {f'chxd_refusals_total{{{ON},reason="token"}}': "0+6x32"},
    ),
    "ChxdDescriptorsNearLimit": (
        {f"process_open_fds{{{ON}}}": "90x32", f"process_max_fds{{{ON}}}": "100x32"},
        {f"process_open_fds{{{ON}}}": "70x32", f"process_max_fds{{{ON}}}": "100x32"},
    ),
    "ChxdSlowCommands": (
        {f'chxd_slow_commands_total{{{ON},tenant="a"}}': "0+6x32"},
        {f'chxd_slow_commands_total{{{ON},tenant="a"}}': "0+1x32"},
    ),
}


def test_each_alert_has_its_series():
    assert sorted(FIRING) == sorted(rule["alert"] for rule in RULES)


@pytest.mark.parametrize("name", sorted(FIRING))
@pytest.mark.parametrize("fires", [True, False])
def test_an_alert_fires(tmp_path, name, fires):
    """promtool has no "fires at all": a wrong expectation makes it tell what it got."""
    series = [
        {"series": key, "values": values} for key, values in FIRING[name][0 if fires else 1].items()
    ]
    expectation = {"eval_time": "31m", "alertname": name, "exp_alerts": []}
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [expectation]}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS.resolve())], "tests": [test]}))
    code, said = promtool("test", "rules", path)
    got = re.search(r"got:\[\s*(.*)", said, re.DOTALL)
    assert (code != 0) == fires, said
    if fires:
        [rule] = [rule for rule in RULES if rule["alert"] == name]
        assert got and f'alertname="{name}"' in got[1], said
        assert f'severity="{rule["labels"]["severity"]}"' in got[1]
        # Texts are filled in: of labels that are there.
        assert "<no value>" not in got[1] and "<error" not in got[1], said


TARGET = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "properties": {
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "expr": {"type": "string", "minLength": 1},
        "legendFormat": {"type": "string"},
    },
}
SOURCE = {
    "type": "object",
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
    "required": ["type", "uid"],
}
PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["row", "stat", "timeseries"]},
        "title": {"type": "string", "minLength": 1},
        "datasource": SOURCE,
        "gridPos": {
            "type": "object",
            "required": ["x", "y", "w", "h"],
            "additionalProperties": False,
            "properties": {
                "x": {"type": "integer", "minimum": 0, "maximum": 23},
                "y": {"type": "integer", "minimum": 0},
                "w": {"type": "integer", "minimum": 1, "maximum": 24},
                "h": {"type": "integer", "minimum": 1},
            },
        },
        "targets": {"type": "array", "minItems": 1, "items": TARGET},
        "fieldConfig": {
            "type": "object",
            "required": ["defaults", "overrides"],
            "properties": {"defaults": {"type": "object"}, "overrides": {"type": "array"}},
        },
    },
    "if": {"properties": {"type": {"const": "row"}}},
    "else": {"required": ["targets", "datasource", "fieldConfig"]},
}
SCHEMA = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time", "refresh"],
    "properties": {
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 8, "items": PANEL},
        "templating": {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "type", "query"],
                        "properties": {"type": {"enum": ["datasource", "query"]}},
                    },
                }
            },
            "required": ["list"],
        },
    },
}


def test_the_dashboard_is_one_of_grafanas():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(DASHBOARD, SCHEMA, jsonschema.Draft7Validator)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    for panel in PANELS:
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(panel))) - {"__rate_interval"}
        assert used <= variables, panel["title"]
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names), panel["title"]


def test_panels_do_not_lie_on_each_other():
    cells = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert cells.setdefault((x, y), panel["title"]) == panel["title"]
