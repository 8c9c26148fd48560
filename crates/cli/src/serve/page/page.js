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
let events = null;
let spannerTime = { at: 0, seen: 0 };

// Spanner's time of the last read: nothing later is known.
const seenAt = () => spannerTime.at;
const isStale = () => document.body.classList.contains("stale");
const now = () => spannerTime.at + performance.now() - spannerTime.seen;
const time = (text) => Date.parse(text);
// Eight characters, whatever the browser's language: others have 24 for midnight, or one digit.
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
const zone = () =>
  new Intl.DateTimeFormat([], { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;
const isCompact = () => byId("compact").checked;

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
  if (lock.late_since) return "held, heartbeat late";
  return STATES[lock.state] ?? lock.state;
};
// Work that nobody does. A free permit, or a lock that nobody reads, is as it should be.
const isIdle = (lock) => ["released", "never_held"].includes(lock.state) && Boolean(lock.fleet?.startsWith("spindle:shard:"));
const isTrouble = (lock) => Boolean(lock.late_since) || ["expired", "evicted"].includes(lock.state) || isIdle(lock);
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

// A name in two parts, of which the end is never cut.
function named(name) {
  const at = Math.max(0, [...name].length - 8);
  const [head, tail] = [[...name].slice(0, at).join(""), [...name].slice(at).join("")];
  return [make("span", { class: "head" }, ...inParts(head)), make("span", { class: "tail" }, ...inParts(tail))];
}

// A long name is broken where a part of it ends.
const inParts = (text) => text.split(/(?<=[/:._])/).flatMap((part) => [part, make("wbr")]);

function makeRow(name) {
  const button = make("button", { type: "button", "aria-expanded": "false" }, ...named(name));
  const swatch = tag();
  const holder = make("span");
  const state = make("td", { class: "state" });
  const since = make("time");
  const token = make("small", { class: "token" });
  const next = make("td", { class: "next" });
  const svg = drawn("svg", { class: "past", viewBox: `0 0 ${WIDTH} 20`, preserveAspectRatio: "none", role: "img" });
  const tr = make(
    "tr", {},
    make("th", { scope: "row", class: "name" }, button),
    make("td", { class: "holder" }, swatch, holder),
    state,
    make("td", { class: "since" }, since, token),
    next,
    make("td", { class: "lane" }, svg),
  );
  tr.dataset.lock = name;
  button.addEventListener("click", () => toggle(name));
  for (const event of ["pointerenter", "focusin"]) tr.addEventListener(event, () => peek(name));
  observer.observe(tr);
  return { tr, button, swatch, holder, state, since, token, next, svg, details: null };
}

function fillRow(name) {
  const row = rows.get(name);
  const lock = locks.get(name);
  const held = lock.state === "held";
  row.holder.textContent = held ? lock.holder : lock.state === "expired" ? `was ${lock.holder}` : "–";
  row.swatch.hidden = !lock.holder;
  if (lock.holder) dye(row.swatch, lock.holder);
  row.state.textContent = stateOf(lock);
  row.state.className = `state ${lock.late_since || isIdle(lock) ? "late" : lock.state}`;
  row.since.dateTime = sinceOf(lock) ?? "";
  row.token.textContent = lock.token ?? "";
  row.button.title = inOneLine(lock);
  row.tr.classList.toggle("trouble", isTrouble(lock));
  age(name);
  drawLane(name);
}

function inOneLine(lock) {
  const holder = lock.holder && lock.state !== "held" ? `last holder ${lock.holder}` : lock.holder;
  const line = lock.next_in_line ? `next in line ${lock.next_in_line}` : null;
  return [lock.name, stateOf(lock), holder, lock.token && `token ${lock.token}`, line].filter(Boolean).join(" · ");
}

// The whole of a lock at the foot of the screen, while its line is pointed at.
function peek(name) {
  byId("peek").textContent = locks.has(name) ? inOneLine(locks.get(name)) : "";
}

function age(name) {
  const lock = locks.get(name);
  const row = rows.get(name);
  if (!lock || !row) return;
  const since = sinceOf(lock);
  row.since.textContent = since ? span(seenAt() - time(since)) : "–";
  row.next.textContent = lock.next_in_line ? `${lock.next_in_line}, for ${span(seenAt() - time(lock.next_in_line_since))}` : "";
}

function render() {
  const prefix = byId("prefix").value;
  const isAsked = FILTERS[byId("state").value] ?? (() => true);
  const holder = chosen.get("holder");
  const isHis = (lock) => !holder || lock.holder === holder;
  const asked = [...locks.values()].filter((lock) => lock.name.startsWith(prefix) && isHis(lock) && isAsked(lock));
  const names = asked.map((lock) => lock.name);
  const all = lines(names, prefix);
  if (!chosen.has("compact")) byId("compact").checked = all.length > MANY;
  document.body.classList.toggle("compact", isCompact());
  // So many fit a laptop by narrow cells alone; fewer do without, and more don't in any case.
  document.body.classList.toggle("narrow", all.length > 300 && all.length <= 600);
  const limit = pages * (isCompact() ? COMPACT_ROWS : ROWS);
  const arranged = isCompact() ? grouped(all) : all;
  const shown = arranged.slice(0, limit);
  const left = arranged.slice(limit).filter((line) => !line.group).length;
  drop(new Set(shown.map((line) => line.name)));
  dropFleets(new Set(shown.map((line) => line.fleet)));
  for (const heading of byId("locks").querySelectorAll(".group")) heading.remove();
  let after = null;
  const put = (tr) => {
    const place = after ? after.nextSibling : byId("locks").firstChild;
    if (place !== tr) byId("locks").insertBefore(tr, place);
    after = tr;
  };
  for (const line of shown) {
    if (line.group) {
      put(makeGroup(line));
      continue;
    }
    if (line.fleet) {
      put(fillFleet(line).tr);
      continue;
    }
    if (!rows.has(line.name)) rows.set(line.name, makeRow(line.name)), fillRow(line.name);
    const row = rows.get(line.name);
    row.tr.classList.toggle("within", Boolean(line.within));
    row.tr.classList.toggle("alone", isCompact() && !line.within && !line.isCell);
    put(row.tr);
    if (row.details) put(row.details);
  }
  byId("none").hidden = names.length > 0 || locks.size === 0;
  byId("more").hidden = left === 0;
  byId("more").textContent = `Show more locks: ${left} are not shown`;
  const when = `${clock(seenAt())} ${zone()}`;
  const asOf = isStale() ? `Nothing is known since ${when}` : `As of ${when}`;
  byId("summary").textContent = spannerTime.at ? asOf : "Nothing is known yet";
  if (!spannerTime.at) return;
  showOverview();
  drawAxis();
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
  while (names.length && !document.hidden) {
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
    const cell = make("td", { colspan: "6" }, make("dl"), make("div", { class: "wide" }), make("p"));
    row.details = make("tr", { class: "details", id }, cell);
    row.button.setAttribute("aria-controls", id);
    row.tr.after(row.details);
    fillTerms(row.details, name);
    fillDetails(name);
    askSoon();
  }
  row.button.setAttribute("aria-expanded", String(Boolean(row.details)));
}

function announce(changes) {
  if (!changes.length) return;
  const more = changes.length > 3 ? `; and ${changes.length - 3} more changes` : "";
  byId("news").textContent = changes.slice(0, 3).join("; ") + more;
}

function trouble(text) {
  byId("trouble").hidden = !text;
  if (byId("trouble").textContent !== (text ?? "")) byId("trouble").textContent = text ?? "";
  document.body.classList.toggle("stale", Boolean(text));
}

function polled(at, said) {
  if (at && time(at) !== spannerTime.at) spannerTime = { at: time(at), seen: performance.now() };
  const since = spannerTime.at ? ` since ${clock(seenAt())} ${zone()}` : "";
  trouble(said && `Nothing is known${since}: Spanner was not read. Holders stop when their leases are over. Do: spindle doctor. (${said})`);
}

// The last holder stands where a holder would be.
const known = (lock) => ({ ...lock, holder: lock.holder ?? lock.last_holder });

function all(event) {
  const data = JSON.parse(event.data);
  polled(data.at, data.trouble);
  locks.clear();
  asked.clear();
  for (const lock of data.locks) locks.set(lock.name, known(lock));
  jobs = data.jobs;
  placeHolders();
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
    locks.set(lock.name, known(lock));
  }
  for (const name of data.gone) {
    tell(locks.get(name) ?? { name }, "its row is gone");
    locks.delete(name);
    lanes.delete(name);
  }
  jobs = data.jobs ?? jobs;
  placeHolders();
  render();
  for (const fleet of fleets) {
    news.push(`${fleet}: ${standing([...locks.values()].filter((lock) => lock.fleet === fleet))}`);
  }
  for (const lock of data.changed) if (rows.has(lock.name)) fillRow(lock.name);
  for (const name of visible) age(name);
  for (const [name, row] of rows) if (row.details) fillDetails(name);
  announce(news);
}

// Nobody looks at a hidden page; and all pages of a browser share six connections.
function listen() {
  events?.close();
  if (document.hidden) return;
  // Until all comes, the page shows what was so long ago.
  document.body.classList.add("stale");
  if (spannerTime.at) render();
  const source = (events = new EventSource("/events"));
  source.addEventListener("all", all);
  source.addEventListener("change", change);
  source.addEventListener("lane", (event) => takeLane(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    trouble("The connection to spindle serve is lost; this page tries again.");
    if (spannerTime.at) render();
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
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
setInterval(() => {
  visible.forEach(drawLane);
  drawAxis();
}, 5000);
setInterval(ask, 10_000);
hatch();
listen();
document.addEventListener("visibilitychange", listen);
