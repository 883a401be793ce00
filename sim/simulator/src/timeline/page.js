"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const { items, lanes, conditions, objects, violation } = data;
const byId = (id) => document.getElementById(id);
const LANE = 40, BAR = 16, EDGE = 20;
// The time without anything to show from which on the axis is broken, in milliseconds.
const BREAK = 5000;
const SHAPES = {
  event: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
  request: "M-4 -4.5L5 0L-4 4.5z",
  answer: "M4 -4.5L-5 0L4 4.5z",
  change: "M0 -6L6 0L0 6L-6 0z",
  fault: "M1 -7L-5 1H-1L-2 7L5 -2H1z",
  act: "M0 -6L5 5H-5z",
  note: "M-4 -4H4V4H-4z",
  process: "M-2 -7H2V7H-2z",
  violation: "M-7 -4L-4 -7L0 -3L4 -7L7 -4L3 0L7 4L4 7L0 3L-4 7L-7 4L-3 0z",
};
const violated = items.findIndex((item) => item.kind === "violation");
const hidden = { kinds: new Set(), lanes: new Set() };
// What is drawn: the places of items, their positions, and the one that is kept.
let shown = [], places = new Map(), kept = null, chosen = null;

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const seconds = (ms) => `${(ms / 1000).toFixed(3)} s`;
const long = (ms) => ms < 60000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60000)} min`;
const matches = (item) => {
  const words = byId("search").value.toLowerCase().split(/\s+/);
  return words.every((word) => item.text.toLowerCase().includes(word));
};

// Where each time is: items of one time and lane stand side by side, and time in which nothing happens is cut short.
function layOut(unit) {
  const widths = new Map();
  const seats = new Map();
  for (const index of shown) {
    const { at, lane } = items[index];
    const key = `${at} ${lane}`;
    const seat = seats.get(key) ?? 0;
    seats.set(key, seat + 1);
    places.set(index, { seat, lane });
    widths.set(at, Math.max(widths.get(at) ?? 0, seat));
  }
  const stops = [];
  let x = EDGE;
  for (const [at, seats] of [...widths].sort(([a], [b]) => a - b)) {
    const last = stops.at(-1);
    const idle = last ? at - last.at : 0;
    x += last ? unit * (1 + Math.min(Math.log2(1 + idle / 10), 5)) : 0;
    stops.push({ at, x, idle, end: x + seats * unit });
    x += seats * unit;
  }
  for (const [index, place] of places) {
    place.x = position(stops, items[index].at) + place.seat * unit;
    place.y = place.lane * LANE + LANE / 2;
  }
  return { stops, width: x + EDGE };
}

function position(stops, at) {
  let low = 0, high = stops.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (stops[middle].at <= at) low = middle + 1; else high = middle;
  }
  const [before, after] = [stops[low - 1], stops[low]];
  if (!before) return EDGE / 2;
  if (before.at === at) return before.x;
  if (!after) return before.end + EDGE / 2;
  return before.end + (after.x - before.end) * (at - before.at) / (after.at - before.at);
}

function draw() {
  shown = [];
  items.forEach((item, index) => {
    if (!hidden.kinds.has(item.kind) && !hidden.lanes.has(item.lane) && matches(item)) shown.push(index);
  });
  places = new Map();
  const { stops, width } = layOut(Number(byId("zoom").value));
  const rows = [...new Set(conditions.map((it) => `${it.object} ${it.type}`))];
  const height = lanes.length * LANE + rows.length * BAR + 8;
  const axis = [], back = [], ways = [], marks = [];
  let free = 0;
  for (const { at, x, idle } of stops) {
    if (idle >= BREAK) {
      back.push(`<path class="gap" d="M${x - 5} 0V${height}"/>`);
    }
    if (x < free) continue;
    const label = idle >= BREAK ? `<tspan class="break">⋯ ${long(idle)} ⋯</tspan> ${seconds(at)}` : seconds(at);
    axis.push(`<text x="${x}" y="14">${label}</text>`);
    free = x + (idle >= BREAK ? 140 : 75);
  }
  lanes.forEach((_, lane) => {
    back.push(`<path class="lane" d="M0 ${lane * LANE + LANE / 2}H${width}"/>`);
  });
  if (places.has(violated)) {
    back.push(`<path class="violated" d="M${places.get(violated).x} 0V${height}"/>`);
  }
  for (const index of shown) {
    const item = items[index], { x, y } = places.get(index), from = places.get(item.cause);
    if (item.until !== undefined) {
      const end = Math.max(position(stops, item.until), x + 4);
      back.push(`<rect class="lasts" x="${x}" y="${y - 8}" width="${end - x}" height="16"/>`);
    }
    if (from && item.kind !== "violation") {
      ways.push(`<path class="way ${item.kind}" data-to="${index}" d="M${from.x} ${from.y}L${x} ${y}"/>`);
    }
    marks.push(`<path class="item ${item.kind}" data-item="${index}" tabindex="-1" aria-label="${escape(item.text)}"` +
      ` transform="translate(${x} ${y})" d="${SHAPES[item.kind]}"/>`);
  }
  const bars = conditions.map((it, index) => {
    const y = lanes.length * LANE + rows.indexOf(`${it.object} ${it.type}`) * BAR;
    const from = position(stops, it.from), length = Math.max(position(stops, it.to) - from, 2);
    const label = `${it.status} ${it.reason}`;
    const text = length > label.length * 5.5 ? `<text x="${from + 3}" y="${y + 11}">${escape(label)}</text>` : "";
    return `<g class="bar ${escape(it.status.toLowerCase())}" data-condition="${index}">` +
      `<rect x="${from}" y="${y + 1}" width="${length}" height="${BAR - 2}"/>${text}</g>`;
  });
  for (const [id, high, parts] of [["axis", 22, axis], ["chart", height, [...back, ...ways, ...bars, ...marks]]]) {
    byId(id).setAttribute("width", width);
    byId(id).setAttribute("height", high);
    byId(id).innerHTML = parts.join("");
  }
  byId("lanes").innerHTML = lanes.map((lane, index) =>
    `<label class="lane" style="height:${LANE}px;line-height:${LANE}px"><input type="checkbox" data-lane="${index}"` +
    `${hidden.lanes.has(index) ? "" : " checked"}> ${escape(lane)}</label>`).join("") +
    rows.map((row) => `<span class="condition" title="${escape(row)}" style="height:${BAR}px"><bdi>${escape(row)}</bdi></span>`).join("");
  byId("count").textContent = `${shown.length} of ${items.length} items`;
  const first = places.has(kept) ? kept : places.has(violated) ? violated : shown[0];
  mark(first)?.setAttribute("tabindex", "0");
}

const mark = (index) => byId("chart").querySelector(`[data-item="${index}"]`);

// Pretty JSON of a value, with what changed from the value before marked. What was never there is `undefined`.
function pretty(value, before, compare, indent = "", label = "") {
  const plain = (it) => it === null || typeof it !== "object";
  const whole = (it, kind) => {
    const text = escape(indent + label + JSON.stringify(it, null, 2).replaceAll("\n", `\n${indent}`));
    return kind ? `<span class="${kind}">${text}</span>` : text;
  };
  if (!compare) return whole(value, "");
  if (value === undefined) return whole(before, "removed");
  if (before === undefined) return whole(value, "added");
  if (JSON.stringify(value) === JSON.stringify(before)) return whole(value, "");
  if (plain(value) || plain(before) || Array.isArray(value) !== Array.isArray(before)) {
    return `${whole(before, "removed")}\n${whole(value, "added")}`;
  }
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const keys = [...new Set([...Object.keys(before), ...Object.keys(value)])];
  const named = (key) => Array.isArray(value) ? "" : `${JSON.stringify(key)}: `;
  const inner = keys.map((key) => pretty(value[key], before[key], true, `${indent}  `, named(key)));
  return `${escape(indent + label)}${open}\n${inner.join(",\n")}\n${indent}${close}`;
}

// Who owns which field says little about most failures and is longer than the object.
function withoutManagers(object) {
  if (!object?.metadata?.managedFields) return object;
  const { managedFields, ...metadata } = object.metadata;
  return { ...object, metadata };
}

function explain(index) {
  const item = items[index];
  chosen = index;
  for (const old of byId("chart").querySelectorAll(".chosen")) old.classList.remove("chosen");
  mark(index)?.classList.add("chosen");
  for (const way of byId("chart").querySelectorAll(`[data-to="${index}"]`)) way.classList.add("chosen");
  const cause = item.cause === undefined ? "" :
    ` <span class="faint">← ${seconds(items[item.cause].at)} ${escape(items[item.cause].text)}</span>`;
  let text = `<p><b>${seconds(item.at)}</b> ${escape(lanes[item.lane])}: ${escape(item.text)}${cause}</p>`;
  if (item.object !== undefined) {
    const all = byId("managers")?.checked ?? false;
    const [object, before] = [objects[item.object], objects[item.before]].map((it) => all ? it : withoutManagers(it));
    text += `<label class="faint"><input type="checkbox" id="managers"${all ? " checked" : ""}> managed fields</label>` +
      `<pre>${pretty(object, before, item.before !== undefined)}</pre>`;
  }
  byId("details").innerHTML = text;
}

function explainCondition(it) {
  byId("details").innerHTML = `<p><b>${seconds(it.from)} to ${seconds(it.to)}</b> ${escape(it.object)}</p>` +
    `<p>${escape(it.type)}=${escape(it.status)}, ${escape(it.reason)}</p><p>${escape(it.message)}</p>`;
}

function goTo(index) {
  const place = places.get(index);
  if (!place) return;
  for (const old of byId("chart").querySelectorAll('[tabindex="0"]')) old.setAttribute("tabindex", "-1");
  const target = mark(index);
  target.setAttribute("tabindex", "0");
  target.focus({ preventScroll: true });
  const scroller = byId("scroller"), left = byId("lanes").offsetWidth;
  scroller.scrollLeft = place.x - (scroller.clientWidth - left) / 2;
  explain(index);
}

// The next item to the left or right in its lane, or the nearest in the next lane that has one.
function neighbour(index, key) {
  const { x, lane } = places.get(index);
  const nearest = (candidates) => candidates.reduce((best, it) =>
    best === undefined || Math.abs(places.get(it).x - x) < Math.abs(places.get(best).x - x) ? it : best, undefined);
  const ahead = { ArrowLeft: (p) => p.lane === lane && p.x < x, ArrowRight: (p) => p.lane === lane && p.x > x }[key];
  if (ahead) return nearest(shown.filter((it) => ahead(places.get(it))));
  const step = key === "ArrowUp" ? -1 : 1;
  for (let next = lane + step; next >= 0 && next < lanes.length; next += step) {
    const found = nearest(shown.filter((it) => places.get(it).lane === next));
    if (found !== undefined) return found;
  }
}

function listen() {
  const chart = byId("chart");
  const indexOf = (event) => event.target.dataset?.item;
  chart.addEventListener("pointerover", (event) => {
    const bar = event.target.closest("[data-condition]");
    if (kept !== null) return;
    if (indexOf(event) !== undefined) explain(Number(indexOf(event)));
    else if (bar) explainCondition(conditions[bar.dataset.condition]);
  });
  chart.addEventListener("focusin", (event) => {
    if (indexOf(event) !== undefined) explain(Number(indexOf(event)));
  });
  chart.addEventListener("click", (event) => {
    kept = indexOf(event) === undefined ? null : Number(indexOf(event));
    if (kept !== null) explain(kept);
  });
  chart.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow") || indexOf(event) === undefined) return;
    event.preventDefault();
    const next = neighbour(Number(indexOf(event)), event.key);
    kept = null;
    if (next !== undefined) goTo(next);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") kept = null;
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("search").addEventListener("input", draw);
  byId("zoom").addEventListener("input", () => {
    draw();
    if (chosen !== null) goTo(chosen);
    byId("zoom").focus();
  });
  byId("to-violation").addEventListener("click", () => goTo(violated));
  byId("details").addEventListener("change", () => explain(chosen));
  const choose = (name, set, read) => byId(name).addEventListener("change", ({ target }) => {
    if (target.checked) set.delete(read(target)); else set.add(read(target));
    draw();
  });
  choose("kinds", hidden.kinds, (target) => target.dataset.kind);
  choose("lanes", hidden.lanes, (target) => Number(target.dataset.lane));
}

function head() {
  const { comparison } = data;
  const title = comparison?.title ?? `${data.plan.controller}, seed ${data.plan.seed}`;
  document.title = violation ? `${violation.invariant}: ${title}` : title;
  byId("title").textContent = title;
  byId("verdict").className = violation ? "violated" : "";
  byId("verdict").innerHTML = violation
    ? `<b>${escape(violation.invariant)}</b> is violated: ${escape(violation.sentence)}<br>Seen: ${escape(violation.seen)}`
    : escape(comparison?.summary ?? "Nothing is violated.");
  document.querySelector("details").hidden = comparison !== undefined;
  byId("replay").hidden = !data.replay;
  byId("replay").querySelector("code").textContent = data.replay ?? "";
  document.querySelector("summary").textContent =
    `Plan: ${long(data.plan.stormyMs)} of storm, ${data.faults.length} faults and acts`;
  document.querySelector("details").open = data.faults.length <= 12;
  byId("plan").innerHTML = data.faults.map((fault) => `<li>${escape(fault)}</li>`).join("");
  byId("kinds").innerHTML = Object.entries(SHAPES).filter(([kind]) => items.some((item) => item.kind === kind))
    .map(([kind, shape]) => `<label><input type="checkbox" data-kind="${kind}" checked> ` +
      `<svg viewBox="-7 -7 14 14"><path class="${kind}" d="${shape}"/></svg> ${kind}</label>`).join("");
  byId("to-violation").hidden = violated < 0;
}

head();
listen();
draw();
if (violated >= 0) goTo(violated);
