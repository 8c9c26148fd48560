// The rows of fleets: one line for all of them, until somebody opens it.
"use strict";

// A filter that begins so asks for each row.
const RESERVED = "spindle:";

const opened = new Set();
const fleetRows = new Map();
const byNumber = new Intl.Collator("en", { numeric: true });

// The lines of the table in their order: locks, fleets, and the rows of those that are open; what is
// in trouble comes first.
function lines(names, prefix) {
  const [troubled, others] = [[], []];
  for (const line of linesByName(names, prefix)) {
    const members = line.members ?? [line.name];
    (members.some((name) => isTrouble(locks.get(name))) ? troubled : others).push(line);
  }
  return [...troubled, ...others].flatMap((line) => {
    if (!line.fleet || !opened.has(line.fleet)) return [line];
    const members = line.members.sort(byNumber.compare);
    return [line, ...members.map((name) => ({ name, within: line.fleet }))];
  });
}

function linesByName(names, prefix) {
  if (prefix.startsWith(RESERVED)) return names.sort().map((name) => ({ name }));
  const tops = new Map();
  for (const name of names) {
    const fleet = locks.get(name).fleet;
    // A fleet's own row may have the name of the fleet.
    if (!fleet) tops.set(name, { name });
    else if (tops.get(fleet)) tops.get(fleet).members.push(name);
    else tops.set(fleet, { fleet, members: [name] });
  }
  return [...tops.keys()].sort().map((name) => tops.get(name));
}

function makeFleet(fleet) {
  const button = make("button", { type: "button", "aria-expanded": "false" }, fleet);
  const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
  const holder = make("span");
  const state = make("td", { class: "state" });
  const tr = make(
    "tr", { class: "fleet" },
    make("th", { scope: "row", class: "name" }, button),
    make("td", { class: "holder" }, swatch, holder),
    state,
    make("td", { class: "since" }, "–"),
    make("td", { class: "lane" }, "each of its rows has a lane: open it"),
  );
  tr.dataset.fleet = fleet;
  button.addEventListener("click", () => {
    if (!opened.delete(fleet)) opened.add(fleet);
    render();
  });
  return { tr, button, swatch, holder, state };
}

function fillFleet({ fleet, members }) {
  if (!fleetRows.has(fleet)) fleetRows.set(fleet, makeFleet(fleet));
  const row = fleetRows.get(fleet);
  const all = members.map((name) => locks.get(name));
  const held = all.filter((lock) => lock.state === "held");
  const holders = [...new Set(held.map((lock) => lock.holder))];
  row.button.setAttribute("aria-expanded", String(opened.has(fleet)));
  row.swatch.hidden = holders.length !== 1;
  if (holders.length === 1) row.swatch.style.background = colour(holders[0]);
  row.holder.textContent = holders.length > 1 ? `${holders.length} holders` : holders[0] ?? "–";
  row.state.textContent = standing(all);
  row.state.className = `state ${held.length ? "held" : ""}`;
  return row;
}

// True if the line of a fleet stands for a lock.
function isWithinClosed(lock, prefix) {
  return lock.fleet && !opened.has(lock.fleet) && !prefix.startsWith(RESERVED);
}

function standing(members) {
  const held = members.filter((lock) => lock.state === "held").length;
  const waiting = members.filter((lock) => lock.state === "waiting").length;
  const more = waiting ? `, ${waiting} waiting` : "";
  return members.length ? `${held} of ${members.length} held${more}` : "its rows are gone";
}

// Forgets the lines of fleets that are shown no more.
function dropFleets(shown) {
  for (const [fleet, row] of fleetRows) {
    if (shown.has(fleet)) continue;
    row.tr.remove();
    fleetRows.delete(fleet);
  }
}
