// The past of a lock as a lane: in colour, and in words.
"use strict";

const SPANS = { 5: "last 5 minutes", 15: "last 15 minutes", 60: "last hour" };
// Units of a lane's width.
const WIDTH = 1800;

// Less would be narrower than a pixel.
const TICK = 3;

const minutes = () => Number(byId("span").value);
const lasts = () => minutes() * 60_000;
const past = () => SPANS[minutes()][0].toUpperCase() + SPANS[minutes()].slice(1);

// The stretches of a lane that were read, the latest first.
function stretches(lock, lane) {
  const all = [];
  const terms = lane?.terms ?? [];
  const newest = terms[0];
  // Until when the terms are known: those that came after them are being read.
  const read = Math.min(lane?.at ? time(lane.at) : 0, seenAt());
  let next = seenAt();
  if (lock.since && newest?.token !== lock.token && (!newest?.end || time(newest.end) < next)) {
    const since = time(lock.since);
    if (lock.state === "held") all.push({ kind: "term", from: since, to: next, holder: lock.holder, text: `${lock.holder} holds` });
    else if (newest?.end) all.push({ kind: free(lock), from: time(newest.end), to: next, text: stateOf(lock) });
    next = lock.state === "held" ? since : newest?.end ? time(newest.end) : Math.min(since, next);
  } else if (newest?.end) {
    all.push({ kind: free(lock), from: time(newest.end), to: next, text: stateOf(lock) });
  }
  terms.forEach((term, index) => {
    const begin = time(term.begin);
    const goesOn = term.token === lock.token ? next : Math.max(begin, Math.min(next, index ? begin : read));
    const to = term.end ? time(term.end) : goesOn;
    const text = `${term.holder} from ${clock(begin)}, ${causeOf(term, lock)}`;
    if (isWait(lock, term)) all.push({ kind: "reserved", from: begin, to, text: stateOf(lock) });
    else all.push({ kind: "term", from: begin, to, holder: term.holder, text });
    const before = terms[index + 1];
    const vacant = term.vacancy_ms ?? 0;
    if (vacant > 0) all.push({ kind: "vacant", from: begin - vacant, to: begin, text: `vacant for ${span(vacant)}` });
    if (before?.end && time(before.end) < begin - vacant - 1) {
      all.push({ kind: "reserved", from: time(before.end), to: begin - vacant, text: "not for the taking yet" });
    }
    next = begin;
  });
  const begin = now() - lasts();
  return all.filter((part) => part.to > begin).map((part) => ({ ...part, from: Math.max(part.from, begin) }));
}

const free = (lock) => (["promised", "evicted", "waiting"].includes(lock.state) ? "reserved" : "vacant");

function laneInWords(parts, lane) {
  if (!lane || (lane.loading && !lane.terms.length)) return `${past()}: being read`;
  const terms = parts.filter((part) => part.kind === "term");
  const vacant = parts.filter((part) => part.kind === "vacant").reduce((sum, part) => sum + part.to - part.from, 0);
  const count = terms.length === 1 ? "1 term" : `${terms.length} terms`;
  const latest = terms.slice(0, 3).map((part) => part.text).join("; before that ");
  const more = terms.length > 3 ? `; and ${terms.length - 3} more` : "";
  return `${past()}: ${count}${latest && `: ${latest}`}${more}. Vacant for ${span(vacant)} in all.`;
}

function drawLane(name) {
  const row = rows.get(name);
  const lock = locks.get(name);
  if (!row || !lock) return;
  const begin = now() - lasts();
  const scale = WIDTH / lasts();
  const lane = lanes.get(name);
  const parts = stretches(lock, lane);
  let lastTick = Infinity;
  const shapes = parts.map((part) => {
    const x = (part.from - begin) * scale;
    const width = (part.to - part.from) * scale;
    const place = { x, y: 0, width, height: 20, class: part.kind };
    if (part.kind === "vacant" && width < TICK) {
      // A tick at the foot says that there was one, and two have room between them.
      if (lastTick - x < 4 * TICK) return null;
      Object.assign(place, { y: 13, height: 7, width: TICK, class: "vacant tick" });
      lastTick = x;
    }
    if (part.kind === "term") place.fill = colour(part.holder);
    const shape = drawn("rect", place);
    const title = drawn("title", {});
    title.textContent = part.text;
    shape.append(title);
    return shape;
  }).filter(Boolean);
  // The shorter a part, the later it is drawn, so that it stays in sight.
  shapes.sort((a, b) => b.getAttribute("width") - a.getAttribute("width"));
  row.svg.replaceChildren(...shapes);
  row.svg.setAttribute("aria-label", laneInWords(parts, lane));
  row.svg.setAttribute("aria-busy", String(!lane || lane.loading));
}

// The times at five places of every lane.
function drawAxis() {
  if (!spannerTime.at) return;
  const at = [1, 0.75, 0.5, 0.25, 0].map((part) => now() - part * lasts());
  const texts = at.map((at, index) => (index === 4 ? "now" : clock(at).slice(0, minutes() > 5 ? 5 : 8)));
  byId("axis").replaceChildren(...texts.map((text) => make("span", {}, text)));
}

// One pattern serves every lane.
function hatch() {
  const svg = drawn("svg", { width: 0, height: 0, "aria-hidden": "true", class: "unseen" });
  const size = WIDTH / 150;
  const pattern = drawn("pattern", { id: "hatch", patternUnits: "userSpaceOnUse", width: size, height: 20 });
  pattern.append(drawn("rect", { class: "hatching", x: 0, y: 0, width: size / 2, height: 20 }));
  svg.append(pattern);
  document.body.append(svg);
}
