// What the energy was spent on, by tenant and by kind. Every joule of the window is in exactly one cell, so that both tables end in the same sum.
//
// Tenants' rows hold what GPUs drew while held; the rest of the cluster's draw is nobody's and gets a row of its own.

import { get } from "./api.js";
import { card, empty, energy, h, key, kwh, num, percent, piece, render, span, table, three, tile, watts } from "./base.js";
import { picker, windowOf } from "./window.js";

const PARTS = [["active", "active"], ["idle", "idle while held"], ["lost", "restarts"], ["unused", "held by nobody"]];
const MOST = 40; // rows of tenants

const partsOf = (row) => [row.energy.active_joules, row.energy.idle_joules, row.energy.restart_joules, row.unused_joules];
const sumOf = (parts) => parts.reduce((a, b) => a + b, 0);

export function mount(root, app) {
  return { refresh: async () => {
    const past = windowOf(app, "86400");
    const [tenants, kinds] = await Promise.all([get("energy", { by: "tenant", limit: 1000, ...past }),
      get("energy", { by: "kind", limit: 1000, ...past }).catch((fault) => { if (fault.status === 403) return null; throw fault; })]);
    render(root, draw(app, tenants, kinds));
  } };
}

function draw(app, tenants, kinds) {
  const total = tenants.total_joules;
  const whole = (kinds?.rows ?? tenants.rows).map(partsOf).reduce((sums, parts) => sums.map((v, i) => v + parts[i]), [0, 0, 0, 0]);
  const seconds = tenants.to - tenants.from;
  return [
    h("div", { class: "headline" }, h("h1", null, "Energy ", h("small", null, `over ${span(seconds)}`)), picker(app, null, "86400")),
    !(total > 0) ? empty("Nothing was drawn in this window. Choose a longer one.") : [
      h("div", { class: "tiles" },
        tile("In all", energy(total), `${watts(total / Math.max(1, seconds))} on average`, { testid: "energy-total" }),
        PARTS.map(([hue, name], i) => tile([key(hue), name], percent(whole[i] / Math.max(1e-9, sumOf(whole))), energy(whole[i])))),
      card("By tenant", account("tenant", app.can("read") ? [...fold(tenants.rows), nobody(tenants)] : tenants.rows, total, (name) => app.hueOf(name))),
      kinds && card("By kind", account("kind", kinds.rows, kinds.total_joules, null))],
  ];
}

/** Beyond the largest, rows are added up. */
function fold(rows) {
  const ranked = [...rows].sort((a, b) => sumOf(partsOf(b)) - sumOf(partsOf(a)));
  const rest = ranked.slice(MOST);
  if (!rest.length) return ranked;
  const sum = (pick) => rest.reduce((v, row) => v + pick(row), 0);
  return [...ranked.slice(0, MOST), { name: `${rest.length} others`, folded: true, unused_joules: sum((r) => r.unused_joules),
    gpu_seconds: sum((r) => r.gpu_seconds),
    energy: { active_joules: sum((r) => r.energy.active_joules), idle_joules: sum((r) => r.energy.idle_joules),
      restart_joules: sum((r) => r.energy.restart_joules) } }];
}

const nobody = (account) => ({ name: "nobody", folded: true, gpu_seconds: 0, energy: { active_joules: 0, idle_joules: 0, restart_joules: 0 },
  unused_joules: Math.max(0, account.total_joules - sumOf(account.rows.map((row) => sumOf(partsOf(row))))) });

function account(by, rows, total, hue) {
  const most = Math.max(1e-9, ...rows.map((row) => sumOf(partsOf(row))));
  const line = (row) => {
    const parts = partsOf(row);
    return h("tr", { testid: "energy-row", "data-name": row.name, "data-key": row.name },
      h("td", { class: row.folded ? "dim" : null }, hue && key(row.folded ? "others" : hue(row.name)), row.name),
      h("td", { class: "stretch" }, h("div", { class: "bar", "aria-hidden": "true" },
        parts.map((v, i) => piece(PARTS[i][0], v / most, `${PARTS[i][1]}: ${energy(v)}`)))),
      parts.map((v) => num(v > 0 ? kwh(v) : "–")), num(h("b", null, kwh(sumOf(parts)))), num(percent(sumOf(parts) / total)),
      num(row.gpu_seconds > 0 ? three(row.gpu_seconds / 3600) : "–"));
  };
  const sums = rows.map(partsOf).reduce((all, parts) => all.map((v, i) => v + parts[i]), [0, 0, 0, 0]);
  const gap = total - sumOf(sums);
  return [table(`Energy by ${by}, kWh`, [by, "", "#active", "#idle", "#restarts", "#unused", "#kWh", "#share", "#GPU h"], rows.map(line),
    ["in all", "", ...sums.map(kwh), kwh(sumOf(sums)), percent(sumOf(sums) / total), three(rows.reduce((v, r) => v + r.gpu_seconds, 0) / 3600)]),
  Math.abs(gap) > Math.max(1, total * 1e-6) && h("p", { class: "note wrong" },
    `The rows add up to ${energy(Math.abs(gap))} ${gap > 0 ? "less" : "more"} than the cluster's total of ${energy(total)}.`)];
}
