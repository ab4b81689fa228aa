// The page of the NodePools service. What the service says is only ever put into the page as text.

const $ = (id) => document.getElementById(id);
const objects = new Map(); // by id: {kind, object}
let selected = null;
let watching = null; // the controller that ends the watch
let drawing = false; // whether the next frame draws

// An idle watch has a comment every 15 seconds: one that says nothing for longer than this is dead, whatever the network believes.
const silence = 45000;

// who calls: kept for this tab only.
const identity = {
  get headers() {
    const headers = { Accept: "application/json" };
    const token = sessionStorage.getItem("token"), email = sessionStorage.getItem("email");
    if (token) headers.Authorization = `Bearer ${token}`;
    if (email) headers["X-User-Email"] = email;
    return headers;
  },
  get name() { return sessionStorage.getItem("email") || (sessionStorage.getItem("token") ? "token" : ""); },
};

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...identity.headers, ...options.headers } });
  if (response.ok) return response;
  let message = `the service answered ${response.status}`;
  try {
    const { error } = await response.json();
    message = error.details ? `${error.message}: ${error.details}` : error.message;
  } catch { /* something in between answered */ }
  throw new Refused(response.status, message);
}

// every lists all pages of a kind, and the revision that the first was read at: a watch from there misses nothing.
async function every(kind, signal) {
  const all = [];
  let cursor = "", revision = "";
  do {
    const page = await (await ask(`api/v1/${kind}?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, { signal })).json();
    all.push(...page[kind]);
    revision ||= page.resource_version;
    cursor = page.next_cursor;
  } while (cursor);
  return { all, revision };
}

async function load(signal) {
  const clusters = await every("clusters", signal);
  const pools = await every("nodepools", signal);
  objects.clear();
  for (const object of clusters.all) objects.set(object.id, { kind: "cluster", object });
  for (const object of pools.all) objects.set(object.id, { kind: "nodepool", object });
  render();
  return clusters.revision;
}

// run lists, then watches, and begins anew when the connection is lost.
async function run() {
  watching?.abort();
  const mine = watching = new AbortController();
  let since = null, pause = 500;
  while (!mine.signal.aborted) {
    try {
      since ??= await load(mine.signal);
      await watch(since, mine.signal, (id) => { since = id ?? since; pause = 500; });
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused) {
        since = null; // events may have expired: read anew
        // Who has not said yet who they are has done nothing wrong.
        problem(identity.name ? error.message : "");
        if (error.status === 401 || error.status === 403) {
          connection("signed out");
          return signIn();
        }
      }
    }
    if (mine.signal.aborted) return;
    connection("reconnecting");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 10000);
  }
}

async function watch(since, signal, seen) {
  const dead = new AbortController();
  const response = await ask(`api/v1/watch?since=${since}`,
    { signal: AbortSignal.any([signal, dead.signal]), headers: { Accept: "text/event-stream" } });
  connection("live");
  problem("");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", timer;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => dead.abort(), silence);
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        let id, type, data = "";
        for (const line of block.split("\n")) {
          if (line.startsWith("id:")) id = line.slice(3).trim();
          if (line.startsWith("event:")) type = line.slice(6).trim();
          if (line.startsWith("data:")) data += line.slice(5).trim();
        }
        if (type === "error") return; // why is told to who asks again
        if (data) take(JSON.parse(data));
        seen(id);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

function take(event) {
  const object = event.nodepool ?? event.cluster;
  const kind = event.type.split(".")[0];
  if (event.type.endsWith(".deleted")) objects.delete(event.object_id);
  else if (object) objects.set(event.object_id, { kind, object });
  if (selected === event.object_id) addEvent(event, true);
  // A burst of events is drawn once.
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    render();
    details();
  });
}

// element makes an element with text and children.
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function connection(state) {
  if ($("connection").textContent === state) return; // screen readers tell every change
  $("connection").textContent = state;
  $("connection").className = state;
}

function problem(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

function nodes(object) {
  const counts = object.status?.nodes;
  return counts ? `${counts.ready ?? 0}/${counts.desired ?? 0}` : "";
}

function says(object) {
  const status = object.status ?? {};
  const drifted = status.conditions?.find((c) => c.type === "Drifted" && c.status === "True");
  return [status.message, drifted && `drifted: ${drifted.message}`].filter(Boolean).join(" · ");
}

function row({ kind, object }) {
  const status = object.status ?? {}, phase = status.phase ?? "", health = status.health ?? "";
  const name = element("button", { type: "button", textContent: object.name });
  name.setAttribute("aria-controls", "details");
  name.setAttribute("aria-expanded", String(selected === object.id));
  name.addEventListener("click", () => select(object.id));
  const tr = element("tr", { className: kind === "cluster" ? "cluster" : "pool", id: `object-${object.id}` },
    element("td", { className: "name" }, name),
    element("td", { textContent: object.spec.platform.type, className: "platform" }),
    element("td", { textContent: phase, className: `phase ${phase}` }),
    element("td", { textContent: health, className: `health ${health}` }),
    element("td", { textContent: nodes(object), className: "nodes" }),
    element("td", { className: "says" }, element("div", { textContent: says(object) })));
  tr.classList.toggle("selected", selected === object.id);
  tr.role = "row";
  for (const td of tr.cells) td.role = "cell";
  return tr;
}

// render draws the clusters, each with its pools, in the order of their names.
function render() {
  const wanted = $("filter").value.trim().toLowerCase();
  const matches = ({ object }) => !wanted ||
    [object.name, object.spec.platform.type, object.status?.phase ?? ""].some((text) => text.toLowerCase().includes(wanted));
  const byName = (a, b) => a.object.name.localeCompare(b.object.name);
  const clusters = [], pools = new Map(), phases = {};
  for (const found of objects.values()) {
    if (found.kind === "cluster") clusters.push(found);
    else if (pools.has(found.object.cluster_id)) pools.get(found.object.cluster_id).push(found);
    else pools.set(found.object.cluster_id, [found]);
    const phase = found.object.status?.phase;
    if (phase) phases[phase] = (phases[phase] ?? 0) + 1;
  }
  const rows = [];
  for (const cluster of clusters.sort(byName)) {
    const its = (pools.get(cluster.object.id) ?? []).sort(byName);
    const shown = matches(cluster) ? its : its.filter(matches);
    if (!matches(cluster) && shown.length === 0) continue;
    rows.push(row(cluster), ...shown.map(row));
  }
  const focused = document.activeElement?.closest("tr")?.id;
  $("rows").replaceChildren(...rows);
  if (focused) document.getElementById(focused)?.querySelector("button").focus();
  $("summary").replaceChildren(...["Failed", "Progressing", "Pending", "Deleting", "Ready"].filter((phase) => phases[phase])
    .map((phase) => element("li", { className: `phase ${phase}`, textContent: `${phases[phase]} ${phase}` })));
  $("objects").hidden = rows.length === 0;
  $("empty").hidden = objects.size > 0;
  $("none").hidden = objects.size === 0 || rows.length > 0;
  if (selected && !objects.has(selected)) select(null);
}

async function select(id) {
  const before = selected;
  selected = id;
  render();
  $("details").hidden = !id;
  $("main").classList.toggle("detailed", Boolean(id));
  if (!id) {
    if (before) document.getElementById(`object-${before}`)?.querySelector("button").focus();
    return;
  }
  $("events").replaceChildren();
  details();
  $("title").focus();
  $("details").scrollTop = 0;
  try {
    const { events } = await (await ask(`api/v1/events?object_id=${encodeURIComponent(id)}&limit=50`)).json();
    if (selected !== id) return;
    // What came while this was asked for may not be in it.
    const last = BigInt(events?.[0]?.revision ?? 0);
    $("events").replaceChildren(...[...$("events").children].filter((item) => BigInt(item.dataset.revision) > last));
    for (const event of events ?? []) addEvent(event, false);
  } catch (error) {
    problem(`events: ${error.message}`);
  }
}

function details() {
  const found = objects.get(selected);
  if (!found) return;
  const { object } = found, status = object.status ?? {};
  $("title").textContent = object.name;
  const facts = [["Phase", [status.phase, status.reason].filter(Boolean).join(": "), `phase ${status.phase}`], ["Says", status.message],
    ["Health", status.health, status.health], ["Nodes ready", nodes(object)], ["Platform", object.spec.platform.type],
    ["Generation", `${object.generation}, observed ${status.observed_generation ?? 0}`], ["Made by", object.created_by],
    ["Created", when(object.created_at)], ["Deletion", object.deletion_requested_at && when(object.deletion_requested_at)], ["ID", object.id]];
  $("facts").replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value, className = ""]) =>
    [element("dt", { textContent: name }), element("dd", { textContent: value, className })]));
  const conditions = (status.conditions ?? []).map((c) => element("li", {},
    element("span", { textContent: `${c.type}: ${c.status}`, className: "condition" }),
    element("time", { textContent: when(c.lastTransitionTime), dateTime: c.lastTransitionTime ?? "" }),
    element("p", { textContent: [c.reason, c.message].filter(Boolean).join(": "), className: "says" })));
  if (conditions.length === 0) conditions.push(element("li", { textContent: "None yet.", className: "says" }));
  $("conditions").replaceChildren(...conditions);
}

function addEvent(event, first) {
  const what = event.type.split(".")[1];
  const item = element("li", {}, event.actor ? `${what} by ${event.actor}` : what,
    element("time", { textContent: when(event.time), dateTime: event.time ?? "" }),
    element("p", { textContent: event.message ?? "", className: "says" }));
  item.dataset.revision = event.revision;
  if (first) $("events").prepend(item);
  else $("events").append(item);
}

function when(text) {
  return text ? new Date(text).toLocaleString() : "";
}

function signIn() {
  $("who").textContent = identity.name || "Sign in";
  $("leave").hidden = !identity.name;
  if (!$("sign-in").open) $("sign-in").showModal();
}

$("who").addEventListener("click", signIn);
$("close").addEventListener("click", () => select(null));
$("filter").addEventListener("input", render);
$("sign-in").addEventListener("close", () => {
  const answer = $("sign-in").returnValue;
  $("sign-in").returnValue = ""; // Escape leaves it as it was
  if (answer !== "enter" && answer !== "leave") return;
  for (const name of ["token", "email"]) {
    const value = answer === "enter" ? $(name).value.trim() : "";
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
    $(name).value = "";
  }
  $("who").textContent = identity.name || "Sign in";
  // What one person may see is not shown to the next.
  objects.clear();
  select(null);
  $("empty").hidden = true;
  problem("");
  run();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !$("sign-in").open && selected) select(null); });
$("who").textContent = identity.name || "Sign in";
run();
