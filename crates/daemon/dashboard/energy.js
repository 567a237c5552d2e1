// What the energy was spent on, by tenant and by kind. Every joule of the window is in exactly one cell, so that both tables end in the same sum.
//
// Tenants' rows hold what GPUs drew while held; the rest of the cluster's draw is nobody's and gets a row of its own.

import { get } from "./api.js";
import { card, empty, energy, h, key, kwh, num, percent, piece, render, span, table, three, tile, watts } from "./base.js";
import { picker, windowOf } from "./window.js";

const PARTS = [["active", "active"], ["idle", "idle while held"], ["lost", "restarts"], ["unused", "unused GPUs"]];
const MOST = 40; // rows of tenants

const sum = (values) => values.reduce((a, b) => a + b, 0);
// A part that nobody knows is null, not 0.
const sums = (rows) => PARTS.map((_, i) => rows.some((row) => row.parts[i] != null) ? sum(rows.map((row) => row.parts[i])) : null);
const read = (account) => account.rows.map((row) => ({
  name: row.name, hours: row.gpu_seconds / 3600,
  parts: [row.energy.active_joules, row.energy.idle_joules, row.energy.restart_joules ?? null, row.unused_joules ?? null],
}));

export function mount(root, app) {
  return { refresh: async () => {
    const past = windowOf(app, "86400");
    const ask = (by) => get("energy", { by, limit: 1000, ...past });
    const [tenants, kinds] = await Promise.all([ask("tenant"), ask("kind")]);
    render(root, draw(app, tenants, kinds));
  } };
}

function draw(app, tenants, kinds) {
  const total = tenants.total_joules;
  const [owners, models] = [read(tenants), read(kinds)];
  const seconds = tenants.to - tenants.from;
  const unused = { name: "unused GPUs", folded: true, hours: null, parts: [null, null, null, Math.max(0, total - sum(sums(owners)))] };
  const whole = sums(app.can("read") ? [...owners, unused] : owners); // tenants' rows know restarts, kinds' do not
  return [
    h("div", { class: "headline" }, h("h1", null, "Energy ", h("small", null, `over ${span(seconds)}`)), picker(app, null, "86400")),
    !(total > 0) ? empty("No energy was recorded in this window. Choose a longer one.") : [
      h("div", { class: "tiles" },
        tile("Total", energy(total), `${watts(total / Math.max(1, seconds))} on average`, { testid: "energy-total" }),
        PARTS.map(([hue, name], i) => tile([key(hue), name], percent(whole[i] / Math.max(1e-9, sum(whole))), energy(whole[i] ?? 0)))),
      card("By tenant", account("tenant", [...fold(owners), app.can("read") ? unused : []].flat(), total, app.hueOf),
        h("p", { class: "note" }, "Two jobs on one GPU share its energy; its GPU hours count for both.")),
      models.length > 0 && card("By kind", account("kind", models, kinds.total_joules, null),
        h("p", { class: "note" }, "Restart energy is recorded by job; here it is part of active."))],
  ];
}

/** The largest; the others are added up. */
function fold(rows) {
  const ranked = [...rows].sort((a, b) => sum(b.parts) - sum(a.parts));
  const rest = ranked.splice(MOST);
  return rest.length ? [...ranked, { name: `${rest.length} others`, folded: true, hours: sum(rest.map((r) => r.hours)), parts: sums(rest) }] : ranked;
}

function account(by, rows, total, hue) {
  const most = Math.max(1e-9, ...rows.map((row) => sum(row.parts)));
  const line = ({ name, parts, hours, folded }) => h("tr", { testid: "energy-row", "data-name": name, "data-key": name },
    h("td", { class: folded ? "dim" : null }, hue && key(folded ? "others" : hue(name)), name),
    h("td", { class: "stretch" }, h("div", { class: "bar", "aria-hidden": "true" },
      parts.map((v, i) => piece(PARTS[i][0], v / most, `${PARTS[i][1]}: ${energy(v)}`)))),
    parts.map((v) => num(kwh(v))), num(h("b", null, kwh(sum(parts)))), num(percent(sum(parts) / total)), num(three(hours)));
  const all = sums(rows);
  const gap = total - sum(all);
  return [table(`Energy by ${by}, kWh`, [by, "", "#active", "#idle", "#restarts", "#unused", "#kWh", "#share", "#GPU h"], rows.map(line),
    ["total", "", ...all.map(kwh), kwh(sum(all)), percent(sum(all) / total), three(sum(rows.map((r) => r.hours)))]),
  Math.abs(gap) > Math.max(1, total * 1e-6) && h("p", { class: "note wrong" },
    `The rows add up to ${energy(Math.abs(gap))} ${gap > 0 ? "less" : "more"} than the total of ${energy(total)}.`)];
}
