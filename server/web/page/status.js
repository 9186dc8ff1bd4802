"use strict";
// Asks for /status.json every second and shows it. What clients have written gets on the page as
// text only.

const KEPT = 300; // samples, one a second
const SVG = "http://www.w3.org/2000/svg";
const samples = [];
let before = null; // the last status, with the time when it came

const byId = (id) => document.getElementById(id);
const sum = (list, key) => list.reduce((total, each) => total + each[key], 0);

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

function count(n) {
  return n === null ? "–" : n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
}

function duration(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

function cell(value, number) {
  const td = document.createElement("td");
  if (value instanceof Node) td.append(value);
  else td.textContent = value;
  if (number) td.className = "n";
  return td;
}

function bar(share, label) {
  const progress = document.createElement("progress");
  progress.max = 1;
  progress.value = share;
  progress.setAttribute("aria-label", label);
  progress.title = `${(100 * share).toFixed(1)} %`;
  return progress;
}

// Rows of [value, is a number].
function fill(id, rows, none) {
  const body = byId(id);
  const columns = body.parentElement.tHead.rows[0].cells.length;
  const trs = rows.map((row) => {
    const tr = document.createElement("tr");
    tr.append(...row.map(([value, number]) => cell(value, number)));
    return tr;
  });
  if (rows.length === 0) {
    const td = cell(none);
    td.colSpan = columns;
    td.className = "none";
    const tr = document.createElement("tr");
    tr.append(td);
    trs.push(tr);
  }
  body.replaceChildren(...trs);
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A round number at or above n, in the steps that `base` counts in.
function roundUp(n, base) {
  let unit = 1;
  while (unit * base <= n) unit *= base;
  for (const factor of [1, 2, 4, 5, 8, 10, 16, 32, 64, 128, 256, 512, 1024]) {
    if (factor * unit >= n && factor <= base) return factor * unit;
  }
  return base * unit;
}

function chart(id, key, format, base) {
  const svg = byId(id);
  const width = svg.clientWidth || 500;
  const height = svg.clientHeight || 190;
  const [left, right, up, down] = [64, 8, 10, 20];
  const values = samples.map((sample) => sample[key]).filter((value) => value !== null);
  const highest = roundUp(Math.max(1, ...values), base);
  const x = (i) => left + ((width - left - right) * i) / (KEPT - 1);
  const y = (value) => up + (height - up - down) * (1 - value / highest);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    parts.push(element("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }));
    const label = { x: left - 8, y: at + 4, "text-anchor": "end" };
    parts.push(element("text", label, format(share * highest)));
  }
  parts.push(element("text", { x: left, y: height - 4 }, "5 min ago"));
  parts.push(element("text", { x: width - right, y: height - 4, "text-anchor": "end" }, "now"));
  const first = KEPT - samples.length;
  const points = samples
    .map((sample, i) => [x(first + i), sample[key]])
    .filter(([, value]) => value !== null)
    .map(([at, value]) => `${at.toFixed(1)},${y(value).toFixed(1)}`);
  if (points.length > 0) {
    const begin = points[0].split(",")[0];
    const end = points[points.length - 1].split(",")[0];
    const area = `M${begin},${y(0)} L${points.join(" L")} L${end},${y(0)} Z`;
    parts.push(element("path", { class: "area", d: area }));
    parts.push(element("path", { class: "curve", d: `M${points.join(" L")}` }));
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
  const last = values.length > 0 ? format(values[values.length - 1]) : "unknown";
  svg.setAttribute("aria-label", `now ${last}, highest ${format(Math.max(0, ...values))}`);
}

// A metric over the steps, from its lowest to its highest value; null where it is not finite.
function sparkline({ metric, steps, values }) {
  const [width, height, edge] = [180, 36, 2];
  const finite = values.filter((value) => value !== null);
  const [lowest, highest] = [Math.min(...finite), Math.max(...finite)];
  const x = (step) =>
    edge + ((width - 2 * edge) * (step - steps[0])) / Math.max(steps[steps.length - 1] - steps[0], 1);
  const y = (value) =>
    height - edge - ((height - 2 * edge) * (value - lowest)) / (highest - lowest || 1);
  let path = "";
  values.forEach((value, i) => {
    const begins = i === 0 || values[i - 1] === null;
    if (value !== null) path += `${begins ? "M" : "L"}${x(steps[i]).toFixed(1)},${y(value).toFixed(1)}`;
  });
  const last = values[values.length - 1];
  const svg = element("svg", { class: "spark", viewBox: `0 0 ${width} ${height}` });
  svg.setAttribute("aria-hidden", "true"); // the caption says it
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = `${metric}: ${last === null ? "not finite" : last.toPrecision(4)}`;
  if (path !== "") {
    svg.append(element("path", { class: "curve", d: `${path}h.01` }));
    caption.textContent += ` (${lowest.toPrecision(4)} to ${highest.toPrecision(4)})`;
  }
  figure.append(svg, caption);
  return figure;
}

function showRuns(status) {
  fill("runs", status.runs.map((r) => {
    const curves = document.createElement("div");
    curves.className = "sparks";
    curves.append(...r.curves.filter((c) => c.values.length > 0).map(sparkline));
    const end = r.message === "" ? r.reason : `${r.reason}: ${r.message}`;
    return [
      [r.name], [r.session_name === "" ? r.session : `${r.session} ${r.session_name}`], [r.tenant],
      [r.state === "ended" ? `ended, ${end}` : r.state], [`${count(r.step)} of ${count(r.steps)}`, 1],
      [bar(r.step / r.steps, `${r.name}: done`)], [count(r.step / r.steps_per_epoch), 1],
      [duration(r.age_seconds), 1], [r.left_seconds > 0 ? duration(r.left_seconds) : "–", 1],
      [curves],
    ];
  }), "No session has one.");
  const shown = status.runs.length;
  byId("runs-note").textContent = status.num_runs > shown
    ? `${shown} of ${status.num_runs} runs, those that go on first.` : "";
}

// Per second, since the last status; null where there is none, or the daemon is another one.
function rate(now, was, seconds) {
  return was === undefined || was === null || now < was ? null : (now - was) / seconds;
}

function showTables(status, seconds) {
  const old = before === null ? null : before.status;
  const oldBy = (list, key) => new Map((old === null ? [] : old[list]).map((o) => [o[key], o]));
  const tenants = oldBy("tenants", "name");
  const sessions = oldBy("sessions", "number");
  fill("devices", status.devices.map((d) => [
    [d.name], [bytes(d.live_bytes), 1], [bytes(d.used_bytes), 1], [bytes(d.memory_bytes), 1],
    [bar(d.memory_bytes > 0 ? d.used_bytes / d.memory_bytes : 0, `${d.name}: held`)],
  ]), "none");
  fill("tenants", status.tenants.map((t) => [
    [t.name], [count(t.sessions), 1], [bytes(t.live_bytes), 1],
    [count(rate(t.commands, tenants.get(t.name)?.commands, seconds)), 1],
    [count(t.commands), 1], [count(t.errors), 1],
  ]), "No session has been opened yet.");
  const largest = [...status.sessions].sort((a, b) => b.memory_bytes - a.memory_bytes);
  fill("sessions", largest.map((s) => [
    [s.number, 1], [s.client], [s.tenant], [duration(s.age_seconds), 1],
    [s.attached ? "yes" : "no"], [bytes(s.memory_bytes), 1], [count(s.handles), 1],
    [count(rate(s.commands, sessions.get(s.number)?.commands, seconds)), 1], [count(s.errors), 1],
  ]), "No session is open.");
  const shown = status.sessions.length;
  byId("sessions-note").textContent = status.num_sessions > shown
    ? `The largest ${shown} of ${status.num_sessions} sessions.` : "";
  const total = Math.max(sum(status.op_groups, "seconds"), 1e-9);
  const groups = status.op_groups.filter((g) => g.kernels > 0);
  groups.sort((a, b) => b.seconds - a.seconds);
  fill("groups", groups.map((g) => [
    [g.name], [count(g.kernels), 1], [g.seconds.toFixed(2), 1],
    [bar(g.seconds / total, `${g.name}: share of the time`)],
  ]), "No operator has run yet.");
  const slow = [...status.slow_commands].sort((a, b) => b.seconds - a.seconds).slice(0, 20);
  fill("slow", slow.map((c) => [
    [duration(c.seconds), 1], [c.op], [c.inputs], [c.location], [c.session, 1], [c.tenant],
    [new Date(1000 * c.ended).toLocaleTimeString(), 1],
  ]), "None.");
  byId("slow-note").textContent = status.slow_command_seconds > 0
    ? `The slowest of the last ones that took more than ${status.slow_command_seconds} s.`
    : "The daemon does not look for them: --slow-command=0s.";
}

function show(status) {
  const now = performance.now() / 1000;
  const seconds = before === null ? 1 : now - before.now;
  const old = before === null ? null : before.status;
  const total = (of, list, key) => (of === null ? null : sum(of[list], key));
  const perSecond = (list, key) =>
    rate(sum(status[list], key), total(old, list, key), seconds);
  const kernels = perSecond("op_groups", "kernels");
  samples.push({ memory: sum(status.devices, "used_bytes"), kernels });
  if (samples.length > KEPT) samples.shift();
  byId("version").textContent = status.version;
  byId("uptime").textContent = `up ${duration(status.uptime_seconds)}`;
  byId("tile-sessions").textContent = count(status.num_sessions);
  byId("tile-kernels").textContent = count(kernels);
  byId("tile-commands").textContent = count(perSecond("tenants", "commands"));
  byId("tile-errors").textContent = count(perSecond("tenants", "errors"));
  byId("tile-waiting").textContent = count(status.waiting);
  byId("tile-memory").textContent = bytes(status.memory_bytes);
  byId("tile-memory").title = `of ${bytes(status.memory_limit_bytes)}`;
  chart("chart-memory", "memory", bytes, 1024);
  chart("chart-kernels", "kernels", count, 10);
  showTables(status, seconds);
  showRuns(status);
  before = { status, now };
}

function state(text, kind) {
  const badge = byId("state");
  if (badge.textContent !== text) badge.textContent = text; // what changes is read aloud
  badge.className = `badge ${kind}`;
}

async function ask() {
  try {
    const reply = await fetch("/status.json", { signal: AbortSignal.timeout(5000) });
    if (reply.status === 401) {
      location.assign("/login");
      return;
    }
    if (!reply.ok) throw new Error(reply.statusText);
    const status = await reply.json();
    show(status);
    state(status.serving ? "serving" : "draining", status.serving ? "good" : "bad");
  } catch (error) {
    state("unreachable", "bad");
  }
  setTimeout(ask, 1000);
}

ask();
