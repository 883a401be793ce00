"use strict";
// Every text is set as text, never parsed as HTML; the Content-Security-Policy forbids the other way.
const LOG_MAX = 300;
const byId = (id) => document.getElementById(id);
const state = { elements: new Map(), limit: 200, paused: [], isPaused: false };
let source = null, typing = null, selected = "", isFocusDue = false;

function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A text from an object can contain letters that change the direction of the text around it.
const text = (content) => el("bdi", {}, String(content));
const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false }) + "." + String(at % 1000).padStart(3, "0");
const time = (at) => el("time", { datetime: new Date(at).toISOString(), title: new Date(at).toString() }, clock(at));
const chip = (status, reason) => el("span", { class: `chip ${["True", "False"].includes(status) ? status : ""}` },
  text(reason ? `${status} ${reason}` : status));
const href = (path) => "#/" + path.split("/").map(encodeURIComponent).join("/");
const linked = (path, content) => path ? el("a", { href: href(path) }, text(content)) : text(content);

function due(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  const relative = seconds > 0 ? ` (in ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`})` : "";
  return `${clock(at)}${relative}`;
}

function controllers(list) {
  byId("controller-rows").replaceChildren(...list.map((it) => {
    const waiting = it.queues.map((queue) => `${queue.name} ${queue.waiting}`).join(", ");
    const running = it.queues.reduce((sum, queue) => sum + queue.running, 0);
    const limit = it.concurrency ? ` of ${it.concurrency}` : "";
    const role = it.ended ? "stopped: this shows its last state" : it.leading ? "leads" : "standby";
    return el("tr", {},
      el("th", { scope: "row" }, text(it.name), " ", el("span", { class: it.ended ? "bad" : "faint" }, role)),
      el("td", {}, waiting || "–"), el("td", {}, `${running}${limit}`), el("td", {}, String(it.requests)),
      el("td", {}, String(it.objects)), el("td", {}, String(it.steps)));
  }));
}

function counts({ kinds, total, matching, problems }) {
  const select = byId("kind"), chosen = select.value;
  const names = Object.keys(kinds).sort();
  if (chosen && !names.includes(chosen)) names.push(chosen);
  const options = [["", `all (${total})`], ...names.map((kind) => [kind, `${kind} (${kinds[kind] ?? 0})`])];
  const labels = JSON.stringify(options);
  if (select.dataset.labels !== labels) {
    select.dataset.labels = labels;
    select.replaceChildren(...options.map(([value, label]) => el("option", { value }, label)));
    select.value = chosen;
  }
  const shown = Math.min(matching, state.limit);
  const count = `${shown} of ${matching} matching, ${total} in all, ${problems} with problems`;
  // A screen reader announces each new text.
  if (byId("count").textContent !== count) byId("count").textContent = count;
  byId("more").hidden = matching <= state.limit || state.limit >= 1000;
}

function objectRow(row) {
  const name = row.namespace ? `${row.namespace}/${row.name}` : row.name;
  const status = row.ready ? chip(row.ready, row.reason) : row.phase ? chip(row.phase, "") : null;
  const message = row.problem && row.message ? el("p", { class: "faint" }, text(row.message)) : null;
  const next = row.problem && row.due ? el("p", { class: "faint" }, `again at ${clock(row.due)}`) : null;
  const element = el("tr", { class: row.path === selected ? "chosen" : "" },
    el("th", { scope: "row" }, el("span", { class: "faint" }, text(row.type)), linked(row.path, name)),
    el("td", {}, status, row.deleting ? " being deleted" : null, message, next),
    el("td", { class: "faint" }, ...row.related.map((relation) => el("p", {}, text(relation)))));
  element.dataset.path = row.path;
  return element;
}

// Only rows that changed are made again, and only rows in another place are moved.
function objects(rows, order) {
  const body = byId("object-rows");
  for (const row of rows) {
    const element = objectRow(row), old = state.elements.get(row.id);
    const isFocused = old?.contains(document.activeElement);
    old?.replaceWith(element);
    if (isFocused) element.querySelector("a").focus({ preventScroll: true });
    state.elements.set(row.id, element);
  }
  if (!order) return;
  const kept = new Set(order);
  for (const [id, element] of state.elements) {
    if (kept.has(id)) continue;
    element.remove();
    state.elements.delete(id);
  }
  let place = body.firstElementChild;
  for (const id of order) {
    const element = state.elements.get(id);
    if (!element) continue;
    if (element === place) place = place.nextElementSibling;
    else body.insertBefore(element, place);
  }
}

const moment = (it) => el("li", { class: it.kind },
  time(it.at), el("span", { class: `mark ${it.kind}`, title: `${it.kind}, step ${it.step}` }),
  el("span", { class: it.bad ? "bad" : null }, it.bad ? "⚠ " : null, linked(it.path, it.text)));

// The newest entry is first.
function log(id, moments) {
  const list = byId(id);
  const fresh = moments.slice(-LOG_MAX).sort((a, b) => b.at - a.at || b.step - a.step);
  list.prepend(...fresh.map(moment));
  while (list.childElementCount > LOG_MAX) list.lastElementChild.remove();
}

function requests(list) {
  byId("request-rows").replaceChildren(...list.map((it) => el("li", {},
    el("span", { class: "age" }, "since ", time(it.asked)), el("span", { class: "mark action" }), linked(it.path, it.text))));
}

function condition(it) {
  const facts = it.facts.flatMap(({ label, text: fact }) => [el("dt", {}, label), el("dd", {}, text(fact))]);
  return el("article", {}, el("h3", {}, text(it.condition), " ", chip(it.status, it.reason)),
    el("p", {}, text(it.message)), el("dl", {}, ...facts));
}

function relationItems({ to, from, count }) {
  const items = to.map((it) => el("li", {}, `${it.label}: `, linked(it.path, it.text), " ", it.ready ? chip(it.ready, "") : null,
    it.path ? null : el("span", { class: "faint" }, "not watched, or does not exist")));
  items.push(...from.map((it) => el("li", {}, "named by ", linked(it.path, it.text), " ", it.ready ? chip(it.ready, "") : null)));
  if (count > from.length) items.push(el("li", { class: "faint" }, `and ${count - from.length} more that name it`));
  return items;
}

function stepItem({ step, at, event, actions, bad }) {
  const line = [event, ...actions].join(" ⇒ ");
  return el("li", {}, time(at), el("span", { class: "faint" }, `step ${step}`), el("span", { class: bad ? "bad" : null }, text(line)));
}

function detail(it) {
  const title = byId("detail-title"), body = byId("detail-body");
  if (!it) {
    title.textContent = "Why is an object in its state?";
    body.replaceChildren(el("p", { class: "faint" }, "Select an object."));
    return;
  }
  if (!it.found) {
    title.textContent = it.path.split("/").slice(1).filter(Boolean).join(" ");
    body.replaceChildren(el("p", {}, "The controller does not watch this object, or it no longer exists."));
    return;
  }
  title.replaceChildren(text(it.title), it.deleting ? " – being deleted" : "");
  const parts = [];
  if (it.phase) parts.push(el("p", {}, "Phase ", chip(it.phase, "")));
  if (it.cycle) parts.push(el("p", {}, "Last cycle: ", text(it.cycle)));
  if (it.result) parts.push(el("p", {}, "Last reconcile: ", text(it.result), " at ", time(it.ended)));
  if (it.explanation) parts.push(el("p", {}, el("strong", {}, "Next: "), text(it.explanation.next)));
  if (it.due) parts.push(el("p", {}, "Waits until ", el("span", { class: "due", "data-due": it.due }, due(it.due))));
  parts.push(...(it.explanation?.conditions ?? []).map(condition));
  if (it.requests.length) {
    parts.push(el("h3", {}, "Requests in flight"),
      el("ul", {}, ...it.requests.map((request) => el("li", {}, text(request.text), " since ", time(request.asked)))));
  }
  const relations = relationItems(it.relations);
  if (relations.length) parts.push(el("h3", {}, "Relations"), el("ul", {}, ...relations));
  if (it.steps.length) {
    parts.push(el("h3", {}, "Last steps about it"), el("ol", { class: "log" }, ...it.steps.map(stepItem)));
  }
  const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  body.replaceChildren(...parts);
  if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  if (isFocusDue) {
    isFocusDue = false;
    title.focus();
    title.scrollIntoView({ block: "nearest" });
  }
}

function update(message) {
  if (message.first) {
    state.elements.clear();
    for (const id of ["object-rows", "timeline-rows", "decision-rows"]) byId(id).replaceChildren();
    state.paused = [];
  }
  if (message.controllers) controllers(message.controllers);
  if (message.counts) counts(message.counts);
  if (message.rows || message.order) objects(message.rows ?? [], message.order);
  if (message.requests) requests(message.requests);
  if (message.decisions) log("decision-rows", message.decisions);
  if (message.timeline && state.isPaused) state.paused = [...state.paused, ...message.timeline].slice(-LOG_MAX);
  else if (message.timeline) log("timeline-rows", message.timeline);
  if (message.detail !== undefined) detail(message.detail);
}

function connect() {
  source?.close();
  const query = new URLSearchParams({ filter: byId("filter").value, kind: byId("kind").value, rows: state.limit, object: selected });
  if (byId("problems").checked) query.set("problems", "1");
  source = new EventSource(`api/stream?${query}`);
  source.onmessage = (event) => {
    const start = performance.now();
    update(JSON.parse(event.data));
    byId("connection").className = "";
    byId("connection").textContent = "live";
    performance.measure("update", { start });
  };
  source.onerror = () => {
    byId("connection").className = "lost";
    byId("connection").textContent = "connection lost: the page shows the last state; connecting again …";
    // A browser gives up after an error of the server, such as too many open pages.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

function select() {
  selected = location.hash.startsWith("#/") ? location.hash.slice(2).split("/").map(decodeURIComponent).join("/") : "";
  for (const element of state.elements.values()) element.classList.toggle("chosen", element.dataset.path === selected);
  isFocusDue = selected !== "";
  connect();
}

byId("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(connect, 150);
});
byId("kind").addEventListener("change", connect);
byId("problems").addEventListener("change", connect);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("more").addEventListener("click", () => {
  state.limit = Math.min(state.limit + 200, 1000);
  connect();
});
byId("kinds").addEventListener("change", ({ target }) => byId("timeline").classList.toggle(`hide-${target.value}`, !target.checked));
byId("pause").addEventListener("click", ({ target }) => {
  state.isPaused = !state.isPaused;
  target.setAttribute("aria-pressed", state.isPaused);
  target.textContent = state.isPaused ? "Continue" : "Pause";
  if (!state.isPaused) log("timeline-rows", state.paused.splice(0));
});
window.addEventListener("hashchange", () => {
  // The link to the objects has a hash as well.
  if (location.hash.startsWith("#/") || location.hash === "") select();
});
setInterval(() => {
  for (const element of document.querySelectorAll("[data-due]")) element.textContent = due(Number(element.dataset.due));
}, 1000);
select();
