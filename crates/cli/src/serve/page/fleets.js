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
    (members.some(isTrouble) ? troubled : others).push(line);
  }
  return [...troubled, ...others].flatMap((line) => {
    if (!line.fleet || !opened.has(line.fleet)) return [line];
    const members = line.members.sort(byNumber.compare);
    return [line, ...members.map((name) => ({ name, within: line.fleet }))];
  });
}

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
      const kind = isBad ? `0 ${lock.late_since ? "late" : lock.state}` : lock.state === "held" ? "1" : "2";
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
  const state = isBad ? inNumbers(of.map(({ name }) => locks.get(name))) : `holds ${of.length}`;
  const said = group.startsWith("2") ? [`Nobody holds ${of.length}`] : [tag(lock.holder), `${lock.holder ?? "nobody"}: ${state}`];
  return make("tr", { class: `group ${isBad ? "trouble" : ""}` }, make("th", { colspan: "6", scope: "rowgroup" }, ...said));
}

// What is wrong with locks that have the same trouble, and since when.
function inNumbers(all) {
  const [lock, count] = [all[0], all.length];
  const [lasting, many] = [lastingOf(all), count > 1];
  const ago = `${many ? ", the first" : ""} ${lasting} ago`;
  if (lock.state === "expired") return `${many ? `${count} leases` : "the lease"} ran out${ago}`;
  if (lock.state === "evicted") return `${many ? `${count} ` : ""}evicted${ago}`;
  if (isIdle(lock)) return `${many ? `${count} shards have` : "one shard has"} had nobody for ${lasting}`;
  return `${many ? `${count} heartbeats are late, the oldest` : "heartbeat late, the last"} came ${lasting} ago`;
}

// For how long the first of these locks has been as it is.
const lastingOf = (all) => span(seenAt() - Math.min(...all.map((lock) => time(sinceOf(lock)))));

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
  const since = make("td", { class: "since" });
  const tr = make(
    "tr", { class: "fleet" },
    make("th", { scope: "row", class: "name" }, button),
    make("td", { class: "holder" }, swatch, holder),
    state,
    since,
    make("td", { class: "next" }),
    make("td", { class: "lane" }, "each of its rows has a lane: open it"),
  );
  tr.dataset.fleet = fleet;
  button.addEventListener("click", () => {
    if (!opened.delete(fleet)) opened.add(fleet);
    render();
  });
  return { tr, button, swatch, holder, state, since };
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
  const troubled = all.filter(isTrouble);
  const isBad = troubled.length > 0;
  row.since.textContent = isBad ? lastingOf(troubled) : "–";
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
  const troubled = members.filter((lock) => isTrouble(lock) && !isIdle(lock)).length;
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
