// An opened lock: all there is to say of it, and its terms as a table.
"use strict";

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
    const vacant = term.vacancy_ms === null ? "–" : term.vacancy_ms === 0 ? "0 s" : span(term.vacancy_ms);
    const lasted = term.lasted_ms === null ? "–" : span(term.lasted_ms);
    const cells = [clock(time(term.begin)), lasted, vacant, causeOf(term, locks.get(name))].map((text) => make("td", {}, text));
    return make("tr", {}, make("th", { scope: "row" }, tag(term.holder), term.holder), ...cells);
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
