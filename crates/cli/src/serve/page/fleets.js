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
    const members = (line.members ?? [line.name]).map((name) => locks.get(name));
    (isTroubled(members) ? troubled : others).push(line);
  }
  return [...troubled, ...others].flatMap((line) => {
    if (!line.fleet || !opened.has(line.fleet)) return [line];
    const members = line.members.sort(byNumber.compare);
    return [line, ...members.map((name) => ({ name, within: line.fleet }))];
  });
}

// Some are in trouble, or pieces of work have nobody.
const isTroubled = (members) => members.some((lock) => isTrouble(lock)) || idle(members) > 0;

// Shards that nobody has. A free permit, or a lock that nobody reads, is as it should be.
const idle = (members) =>
  members.filter((lock) => lock.fleet?.startsWith("spindle:shard:") && !["held", "promised"].includes(lock.state)).length;

// The compact form: few in trouble are lines of their own, then come fleets, then the locks of each holder under a heading.
const FEW = 20;

function grouped(all) {
  const groups = new Map();
  const [first, fleets] = [[], []];
  const troubled = all.filter((line) => !line.fleet && !line.within && isTrouble(locks.get(line.name)));
  for (const line of all) {
    const lock = locks.get(line.name);
    const isBad = lock && isTrouble(lock);
    if (line.fleet || line.within) fleets.push(line);
    else if (isBad && troubled.length <= FEW) first.push(line);
    else {
      const kind = isBad ? `0 ${lock.late ? "late" : lock.state}` : lock.state === "held" ? "1" : "2";
      const key = `${kind} ${kind === "2" ? "" : lock.holder ?? ""}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push({ ...line, isCell: true });
    }
  }
  const headed = [...groups.keys()].sort(byNumber.compare).map((key) => [{ group: key, of: groups.get(key) }, ...groups.get(key)]);
  const bad = headed.filter(([{ group }]) => group.startsWith("0"));
  const good = headed.filter(([{ group }]) => !group.startsWith("0"));
  return [...first, ...bad.flat(), ...fleets, ...good.flat()];
}

function makeGroup({ group, of }) {
  const lock = locks.get(of[0].name);
  const isBad = group.startsWith("0");
  const oldest = Math.min(...of.map(({ name }) => time(sinceOf(locks.get(name)))));
  const state = isBad ? `of ${of.length}, ${stateOf(lock)}, the first ${span(seenAt() - oldest)} ago` : `holds ${of.length}`;
  const said = group.startsWith("2") ? [`Nobody holds ${of.length}`] : [tag(lock.holder), `${lock.holder ?? "nobody"}: ${state}`];
  return make("tr", { class: `group ${isBad ? "trouble" : ""}` }, make("th", { colspan: "6", scope: "rowgroup" }, ...said));
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
  const swatch = tag();
  const holder = make("span");
  const state = make("td", { class: "state" });
  const tr = make(
    "tr", { class: "fleet" },
    make("th", { scope: "row", class: "name" }, button),
    make("td", { class: "holder" }, swatch, holder),
    state,
    make("td", { class: "since" }, "–"),
    make("td", { class: "next" }),
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
  if (holders.length === 1) dye(row.swatch, holders[0]);
  row.holder.textContent = holders.length > 1 ? `${holders.length} holders` : holders[0] ?? "–";
  row.state.textContent = standing(all);
  const isBad = isTroubled(all);
  row.state.className = `state ${isBad ? "late" : held.length ? "held" : ""}`;
  row.tr.classList.toggle("trouble", isBad);
  return row;
}

// True if the line of a fleet stands for a lock.
function isWithinClosed(lock, prefix) {
  return lock.fleet && !opened.has(lock.fleet) && !prefix.startsWith(RESERVED);
}

function standing(members) {
  const held = members.filter((lock) => lock.state === "held").length;
  const waiting = members.filter((lock) => lock.state === "waiting").length;
  const troubled = members.filter(isTrouble).length;
  const more = (waiting ? `, ${waiting} waiting` : "") + (troubled ? `, ${troubled} in trouble` : "");
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
