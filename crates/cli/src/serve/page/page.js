// The holders, live: events tell the changes, and lanes are asked for where they are on the screen.
"use strict";

// Lines that are shown at first, also of the compact form; it is the usual one for many lines.
const ROWS = 200;
const COMPACT_ROWS = 1000;
const MANY = 100;
const SVG = "http://www.w3.org/2000/svg";
const CAUSES = { handed_to: "handed to", lease_ran_out: "lease ran out",
  before_heartbeat: "ended before its first heartbeat", unknown: "unknown: the row was deleted later" };
const STATES = { never_held: "never held", promised: "reserved", expired: "lease ran out" };

const byId = (id) => document.getElementById(id);
const locks = new Map();
const lanes = new Map();
const rows = new Map();
const asked = new Map();
const visible = new Set();
const chosen = new URLSearchParams(location.search);
let pages = 1;
let spannerTime = { at: 0, seen: 0 };

const now = () => spannerTime.at + performance.now() - spannerTime.seen;
const time = (text) => Date.parse(text);
const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });
const zone = () =>
  new Intl.DateTimeFormat([], { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;
const isCompact = () => byId("compact").checked;

// The same for each viewer and each day: by the name alone, mixed so that like names differ.
function colour(holder) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(holder)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  hash = (hash ^ (hash >>> 16)) >>> 0;
  return `hsl(${hash % 360} 60% ${[38, 50, 62][(hash >>> 9) % 3]}%)`;
}

function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (milliseconds > 0 && milliseconds < 1000) return `${Math.ceil(milliseconds)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const stateOf = (lock) => {
  if (lock.state === "promised") return `reserved for ${lock.reserved_for}`;
  if (lock.state === "waiting") return `${lock.holder} waits`;
  if (lock.state === "held" && lock.late) return "held, heartbeat late";
  return STATES[lock.state] ?? lock.state;
};
const isTrouble = (lock) => lock.late || lock.state === "expired" || lock.state === "evicted";
const FILTERS = {
  trouble: isTrouble,
  held: (lock) => lock.state === "held",
  vacant: (lock) => lock.state !== "held",
};
// True of the term of a gate whose holder waits until nobody reads any more.
const isWait = (lock, term) => lock?.state === "waiting" && lock.token === term.token;
const causeOf = (term, lock) => {
  if (!term.cause && isWait(lock, term)) return "waits";
  if (!term.cause) return term.end ? "ended" : "holds";
  const cause = CAUSES[term.cause] ?? term.cause;
  return term.detail ? `${cause} ${term.detail}` : cause;
};

function makeRow(name) {
  const button = make("button", { type: "button", "aria-expanded": "false" }, name);
  const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
  const holder = make("span");
  const state = make("td", { class: "state" });
  const since = make("time");
  const svg = drawn("svg", { class: "past", viewBox: `0 0 ${WIDTH} 20`, preserveAspectRatio: "none", role: "img" });
  const tr = make(
    "tr", {},
    make("th", { scope: "row", class: "name" }, button),
    make("td", { class: "holder" }, swatch, holder),
    state,
    make("td", { class: "since" }, since),
    make("td", { class: "lane" }, svg),
  );
  tr.dataset.lock = name;
  button.addEventListener("click", () => toggle(name));
  observer.observe(tr);
  return { tr, button, swatch, holder, state, since, svg, details: null };
}

function fillRow(name) {
  const row = rows.get(name);
  const lock = locks.get(name);
  const held = lock.state === "held";
  row.holder.textContent = held ? lock.holder : "–";
  row.swatch.hidden = !held;
  if (held) row.swatch.style.background = colour(lock.holder);
  row.state.textContent = stateOf(lock);
  row.state.className = `state ${lock.late ? "late" : lock.state}`;
  row.since.dateTime = lock.since ?? "";
  age(name);
  drawLane(name);
}

function age(name) {
  const lock = locks.get(name);
  const row = rows.get(name);
  if (lock && row) row.since.textContent = lock.since ? span(now() - time(lock.since)) : "–";
}

function render() {
  const prefix = byId("prefix").value;
  const isAsked = FILTERS[byId("state").value] ?? (() => true);
  const named = [...locks.keys()].filter((name) => name.startsWith(prefix));
  const names = named.filter((name) => isAsked(locks.get(name)));
  const all = lines(names, prefix);
  if (!chosen.has("compact")) byId("compact").checked = all.length > MANY;
  document.body.classList.toggle("compact", isCompact());
  const limit = pages * (isCompact() ? COMPACT_ROWS : ROWS);
  const shown = all.slice(0, limit);
  drop(new Set(shown.map((line) => line.name)));
  dropFleets(new Set(shown.map((line) => line.fleet)));
  let after = null;
  const put = (tr) => {
    const place = after ? after.nextSibling : byId("locks").firstChild;
    if (place !== tr) byId("locks").insertBefore(tr, place);
    after = tr;
  };
  for (const line of shown) {
    if (line.fleet) {
      put(fillFleet(line).tr);
      continue;
    }
    if (!rows.has(line.name)) rows.set(line.name, makeRow(line.name)), fillRow(line.name);
    const row = rows.get(line.name);
    row.tr.classList.toggle("within", Boolean(line.within));
    put(row.tr);
    if (row.details) put(row.details);
  }
  byId("none").hidden = names.length > 0 || locks.size === 0;
  byId("more").hidden = all.length <= limit;
  byId("more").textContent = `Show more locks: ${all.length - shown.length} are not shown`;
  const held = [...locks.values()].filter((lock) => lock.state === "held").length;
  const troubled = [...locks.values()].filter(isTrouble).length;
  const more = troubled ? `, ${troubled} in trouble` : "";
  byId("summary").textContent = `${held} of ${locks.size} held${more}, as of ${clock(spannerTime.at)} ${zone()}`;
}

// Forgets the rows of locks that are shown no more.
function drop(shown) {
  for (const [name, row] of rows) {
    if (shown.has(name)) continue;
    observer.unobserve(row.tr);
    visible.delete(name);
    row.details?.remove();
    row.tr.remove();
    rows.delete(name);
  }
}

// The rows on the screen want their lanes, and go on wanting them.
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const name = entry.target.dataset.lock;
    if (entry.isIntersecting) visible.add(name), drawLane(name), age(name);
    else visible.delete(name);
  }
  askSoon();
});

let asking;
const askSoon = () => {
  clearTimeout(asking);
  asking = setTimeout(ask, 150);
};

async function ask() {
  const due = performance.now() - 30_000;
  const isDrawn = (name) => !isCompact() || rows.get(name)?.details;
  const names = [...visible].filter((name) => isDrawn(name) && (asked.get(name) ?? -Infinity) < due);
  while (names.length) {
    const some = names.splice(0, 25);
    const query = new URLSearchParams(some.map((name) => ["lock", name]));
    for (const name of some) asked.set(name, performance.now());
    try {
      const answer = await fetch(`/lanes?${query}`);
      if (answer.ok) for (const lane of await answer.json()) takeLane(lane);
    } catch {
      for (const name of some) asked.delete(name);
    }
  }
}

function takeLane(lane) {
  lanes.set(lane.name, lane);
  if (visible.has(lane.name)) drawLane(lane.name);
  const row = rows.get(lane.name);
  if (row?.details) fillTerms(row.details, lane.name);
}

function toggle(name) {
  const row = rows.get(name);
  if (row.details) {
    row.details.remove();
    row.details = null;
  } else {
    const id = `details-${[...name].map((c) => c.codePointAt(0).toString(16)).join("-")}`;
    const cell = make("td", { colspan: "5" }, make("dl"), make("div", { class: "wide" }), make("p"));
    row.details = make("tr", { class: "details", id }, cell);
    row.button.setAttribute("aria-controls", id);
    row.tr.after(row.details);
    fillTerms(row.details, name);
    fillDetails(name);
    askSoon();
  }
  row.button.setAttribute("aria-expanded", String(Boolean(row.details)));
}

async function fillDetails(name) {
  let lock;
  try {
    const answer = await fetch(`/lock?${new URLSearchParams({ name })}`);
    if (!answer.ok) return;
    lock = await answer.json();
  } catch {
    return;
  }
  const ms = (milliseconds) => (milliseconds === null ? null : span(milliseconds));
  const facts = [
    ["Next contender", lock.next],
    ["Token", lock.token],
    ["Since", lock.since],
    ["Lease", ms(lock.lease_ms)],
    ["Heartbeat", lock.heartbeat_age_ms === null ? null : `${ms(lock.heartbeat_age_ms)} ago`],
    ["Info", lock.info],
    ...(lock.slots ?? []).map((slot) => [
      `Slot ${slot.slot ?? "–"}`,
      `${slot.state}, start ${slot.starts} of ${slot.attempts}, by ${slot.by ?? "–"}${slot.took_ms === null ? "" : `, took ${ms(slot.took_ms)}`}`,
    ]),
  ];
  const list = rows.get(name)?.details?.querySelector("dl");
  const said = facts.filter(([, text]) => text !== null && text !== undefined);
  list?.replaceChildren(...said.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, String(text))]));
}

function fillTerms(details, name) {
  const lane = lanes.get(name);
  const heads = ["Holder", "Begin", "Lasted", "Vacant before", "End"];
  const body = (lane?.terms ?? []).map((term) => {
    const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colour(term.holder);
    const vacant = term.vacancy_ms === null ? "–" : term.vacancy_ms === 0 ? "0 s" : span(term.vacancy_ms);
    const lasted = term.lasted_ms === null ? "–" : span(term.lasted_ms);
    const cells = [clock(time(term.begin)), lasted, vacant, causeOf(term, locks.get(name))].map((text) => make("td", {}, text));
    return make("tr", {}, make("th", { scope: "row" }, swatch, term.holder), ...cells);
  });
  const table = make(
    "table", {},
    make("caption", {}, `Terms, the latest first; times in ${zone()}`),
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...body),
  );
  details.querySelector(".wide").replaceChildren(table);
  details.querySelector("p").textContent = lane?.loading ?? true ? "Earlier terms are being read …" : lane.end ?? "";
}

function announce(changes) {
  if (!changes.length) return;
  const more = changes.length > 3 ? `; and ${changes.length - 3} more changes` : "";
  byId("news").textContent = changes.slice(0, 3).join("; ") + more;
}

function trouble(text) {
  byId("trouble").hidden = !text;
  if (byId("trouble").textContent !== (text ?? "")) byId("trouble").textContent = text ?? "";
}

function polled(at, said) {
  if (at) spannerTime = { at: time(at), seen: performance.now() };
  trouble(said && `Spanner was not asked: ${said}`);
}

function all(event) {
  const data = JSON.parse(event.data);
  polled(data.at, data.trouble);
  locks.clear();
  asked.clear();
  for (const lock of data.locks) locks.set(lock.name, lock);
  render();
  for (const name of rows.keys()) fillRow(name);
  askSoon();
}

function change(event) {
  const data = JSON.parse(event.data);
  polled(data.at, data.trouble);
  const news = [];
  const fleets = new Set();
  const prefix = byId("prefix").value;
  const tell = (lock, text) => {
    if (!lock.name.startsWith(prefix)) return;
    if (isWithinClosed(lock, prefix)) fleets.add(lock.fleet);
    else news.push(`${lock.name}: ${text}`);
  };
  for (const lock of data.changed) {
    const before = locks.get(lock.name);
    if (before?.token !== lock.token || before?.state !== lock.state) {
      tell(lock, lock.state === "held" ? `held by ${lock.holder}` : stateOf(lock));
    }
    locks.set(lock.name, lock);
  }
  for (const name of data.gone) {
    tell(locks.get(name) ?? { name }, "its row is gone");
    locks.delete(name);
    lanes.delete(name);
  }
  render();
  for (const fleet of fleets) {
    news.push(`${fleet}: ${standing([...locks.values()].filter((lock) => lock.fleet === fleet))}`);
  }
  for (const lock of data.changed) if (rows.has(lock.name)) fillRow(lock.name);
  for (const name of visible) age(name);
  for (const [name, row] of rows) if (row.details) fillDetails(name);
  announce(news);
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("all", all);
  events.addEventListener("change", change);
  events.addEventListener("lane", (event) => takeLane(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    trouble("The connection to spindle serve is lost; this page tries again.");
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

byId("prefix").value = decodeURIComponent(location.hash.slice(1));
byId("prefix").addEventListener("input", () => {
  pages = 1;
  remember();
  render();
});
byId("more").addEventListener("click", () => {
  pages += 1;
  render();
});

// The address keeps what was chosen, so that it can be sent to somebody else.
function remember() {
  const query = chosen.size ? `?${chosen}` : location.pathname;
  history.replaceState(null, "", `${query}#${encodeURIComponent(byId("prefix").value)}`);
}

function choose(id, value) {
  chosen.set(id, value);
  pages = 1;
  remember();
  byId("past").textContent = past();
  render();
  visible.forEach(drawLane);
  askSoon();
}

for (const id of ["state", "span"]) {
  const offered = [...byId(id).options].map((option) => option.value);
  if (offered.includes(chosen.get(id))) byId(id).value = chosen.get(id);
  byId(id).addEventListener("change", () => choose(id, byId(id).value));
}
byId("compact").checked = chosen.get("compact") === "true";
byId("compact").addEventListener("change", () => choose("compact", String(isCompact())));
byId("past").textContent = past();
setInterval(() => visible.forEach(drawLane), 5000);
setInterval(ask, 10_000);
hatch();
listen();
