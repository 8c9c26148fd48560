// What there is, before any single lock: how many are in trouble, who holds how many, what to do; and the jobs.
"use strict";

// Twelve colours that no two people take for each other, each with letters beside it.
const PALETTE = ["#1f6fd0", "#e69f00", "#0f8a4b", "#d65fa0", "#5bbcf0", "#7444c0", "#8c5a2b", "#0aa5a0", "#8a8f00", "#a4d65e",
  "#2b3a8f", "#b9a3ea"];
const HOLDERS_SHOWN = 24;
const JOBS_SHOWN = 20;
const places = new Map();
const having = PALETTE.map(() => []);
let jobs = [];

function hash(text) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

// A holder's own place in the palette, or the next of those that the fewest have, where nobody has the same letters. Those
// that hold now are placed first and by name, so that all viewers see the same colours.
function takePlace(holder) {
  const own = hash(holder) % PALETTE.length;
  const fewest = Math.min(...having.map((who) => who.length));
  const free = PALETTE.map((_, at) => (own + at) % PALETTE.length).filter((place) => having[place].length === fewest);
  const place = free.find((place) => !having[place].includes(letters(holder))) ?? free[0];
  having[place].push(letters(holder));
  places.set(holder, place);
  return place;
}

function placeHolders() {
  const holding = [...new Set([...locks.values()].map((lock) => lock.holder).filter(Boolean))].sort();
  if (holding.every((holder) => places.has(holder))) return;
  places.clear();
  for (const who of having) who.length = 0;
  holding.forEach(takePlace);
}

const colour = (holder) => PALETTE[places.get(holder) ?? takePlace(holder)];

// The letters at the end of an id, where ids differ.
const letters = (holder) => (holder.match(/[\p{L}\p{N}]/gu) ?? ["?"]).slice(-2).join("").toUpperCase();

function tag(holder) {
  const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
  if (holder) dye(swatch, holder);
  return swatch;
}

function dye(swatch, holder) {
  const background = colour(holder);
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(background.slice(at, at + 2), 16));
  swatch.style.background = background;
  swatch.style.color = red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
  swatch.dataset.letters = letters(holder);
}

// Since when a lock has been as it is: a lease that ran out, since then; a late heartbeat, since the last.
const sinceOf = (lock) => lock.lost ?? lock.late_since ?? lock.since;

function counts() {
  const holders = new Map();
  const of = { held: 0, trouble: 0, vacant: 0, line: 0, first: null };
  for (const lock of locks.values()) {
    const troubled = isTrouble(lock);
    of.held += lock.state === "held";
    of.trouble += troubled;
    of.vacant += lock.state !== "held" && !troubled;
    if (lock.next_in_line) {
      of.line += 1;
      const since = time(lock.next_in_line_since);
      if (of.first === null || since < of.first) of.first = since;
    }
    if (!lock.holder) continue;
    const holder = holders.get(lock.holder) ?? { holder: lock.holder, held: 0, trouble: 0 };
    holder.held += lock.state === "held";
    holder.trouble += troubled;
    holders.set(lock.holder, holder);
  }
  return { ...of, holders: [...holders.values()].sort(byTrouble) };
}

const byTrouble = (a, b) => b.trouble - a.trouble || b.held - a.held || byNumber.compare(a.holder, b.holder);

function standingOf({ held, trouble }) {
  if (!trouble) return `holds ${held}`;
  return held ? `holds ${held}, ${trouble} in trouble` : `held ${trouble}, all in trouble`;
}

function showOverview() {
  const of = counts();
  const failed = jobs.filter(isJobTrouble).length;
  const totals = [
    of.trouble && ["bad", `${of.trouble} in trouble`],
    failed && ["bad", failed === 1 ? "1 job failed" : `${failed} jobs failed`],
    ["good", `${of.held} of ${locks.size} held`],
    of.vacant && ["", `${of.vacant} not held`],
    of.line && ["", `${of.line} with a line, the longest wait ${span(seenAt() - of.first)}`],
  ].filter(Boolean);
  byId("totals").replaceChildren(...totals.map(([kind, text]) => make("li", { class: kind }, text)));
  const wanted = chosen.get("holder");
  const first = of.holders.slice(0, HOLDERS_SHOWN);
  // A choice can be taken back, also once that one holds nothing any more.
  if (wanted && !first.some((one) => one.holder === wanted)) {
    first.push(of.holders.find((one) => one.holder === wanted) ?? { holder: wanted, held: 0, trouble: 0 });
  }
  const shown = first.map((one) => {
    const pressed = String(wanted === one.holder);
    const button = make(
      "button", { type: "button", title: one.holder, "aria-pressed": pressed, class: one.trouble ? "bad" : "" },
      tag(one.holder), ...named(one.holder), " ", make("small", {}, standingOf(one)),
    );
    button.addEventListener("click", () => chooseHolder(pressed === "true" ? null : one.holder));
    return make("li", {}, button);
  });
  const rest = of.holders.filter((one) => !first.includes(one)).length;
  if (rest > 0) shown.push(make("li", {}, `and ${rest} more holders`));
  const focused = [...byId("holders").querySelectorAll("button")].indexOf(document.activeElement);
  byId("holders").replaceChildren(...shown);
  if (focused >= 0) byId("holders").querySelectorAll("button")[focused]?.focus();
  byId("advice").textContent = isStale() ? "" : advice();
  showJobs();
}

function chooseHolder(holder) {
  if (holder) chosen.set("holder", holder);
  else chosen.delete("holder");
  pages = 1;
  remember();
  render();
}

// The worst of what is wrong, since when, and the first step.
function advice() {
  const all = [...locks.values()].filter(isTrouble);
  const lost = all.filter((lock) => lock.state === "expired");
  const idle = all.filter(isIdle);
  const evicted = all.filter((lock) => lock.state === "evicted");
  const worst = [lost, idle, evicted, all].find((some) => some.length);
  if (!worst) return "";
  const lock = worst.reduce((a, b) => (time(sinceOf(b)) < time(sinceOf(a)) ? b : a));
  const said = `${lock.fleet ?? lock.name}: ${inNumbers(worst)}`;
  if (lost.length > 1) return `${inNumbers(lost)}, and nobody took the locks. See that contenders run; “spindle doctor” where the service runs.`;
  if (lost.length) return `${said}, and nobody took it. Do: spindle show ${lock.name}`;
  if (idle.length) return `${said}. Do: spindle shards ${lock.fleet.replace("spindle:shard:", "")}`;
  if (evicted.length) return `${said}: others begin once the lease is over. Do: spindle show ${lock.name}`;
  return `${said}: ${lock.holder} may hang, or Spanner is slow. Do: spindle doctor where it runs.`;
}

const isJobTrouble = (job) => job.state === "failed" || job.state === "unreadable";

function showJobs() {
  byId("jobs").hidden = jobs.length === 0;
  const order = (job) => (isJobTrouble(job) ? 0 : job.state === "running" ? 1 : 2);
  const sorted = [...jobs].sort((a, b) => order(a) - order(b) || byNumber.compare(a.job, b.job));
  const lines = sorted.slice(0, JOBS_SHOWN).map((job) => {
    const took = job.took_ms === null ? "–" : span(job.took_ms);
    const by = make("td", {}, ...(job.by ? [tag(job.by), job.by] : ["–"]));
    return make(
      "tr", {},
      make("th", { scope: "row" }, job.job),
      make("td", { class: isJobTrouble(job) ? "bad" : "" }, `${job.state}, start ${job.starts} of ${job.attempts}`),
      make("td", {}, job.slot ?? "–"), make("td", {}, took), by,
    );
  });
  byId("job-lines").replaceChildren(...lines);
  const rest = sorted.length - lines.length;
  byId("jobs-rest").textContent = rest > 0 ? `and ${rest} more jobs: “spindle jobs” lists all` : "";
}
