// Who is owed how much, who got it, and whether anybody would rather have another's part.
//
// The decision in force comes from /v1/allocation, the past from /v1/audit. Envy E(l,i) is what l's jobs would make of i's GPUs, per entitlement,
// over what they make of their own: above 1, l would rather have i's. The sharing ratio is a tenant's utility over that of an equal division. Both are
// judged by the policy's own entitlements, limits and estimates of that round; what was received since stands apart.

import { get } from "./api.js";
import { card, count, empty, entry, h, num, percent, piece, plural, render, table, three, tile } from "./base.js";
import { picker, windowOf } from "./window.js";

const MOST = 24; // tenants in the matrix
const LEVEL = 0.005; // nearer to 1 than this is indifference

export function mount(root, app) {
  return { refresh: async () => {
    const past = windowOf(app);
    const [tenants, now] = await Promise.all([get("tenants"), past ? get("audit", past) : get("allocation")]);
    render(root, draw(app, tenants.tenants, now, Boolean(past)));
  } };
}

function draw(app, tenants, it, past) {
  const held = new Map(tenants.map((t) => [t.name, t]));
  const shares = [...it.shares].sort((a, b) => b.entitlement_ratio - a.entitlement_ratio);
  const envies = it.shares.flatMap((s, l) => s.envy.filter((e, i) => e != null && i !== l));
  const worst = past ? it.worst_envy : envies.length ? Math.max(...envies) : null;
  const ratios = it.shares.map((s) => s.sharing_ratio).filter((r) => r != null);
  const least = past ? it.least_sharing : ratios.length ? Math.min(...ratios) : null;
  return [
    h("div", { class: "headline" }, h("h1", null, "Fairness ",
      h("small", null, past ? `under ${it.policies.join(", ") || "no policy"}` : `round ${count(it.round)}, ${it.policy}`)), picker(app, "the current allocation")),
    !shares.length ? empty(past ? "No allocation in this window. Choose a longer one."
      : "No allocation: no tenant has a live job. Submit one and check again after the next round.") : [
      h("div", { class: "tiles" },
        verdict("Strongest envy", worst, worst != null && worst > 1 + LEVEL, "envy-free: no tenant prefers another's GPUs",
          "a tenant prefers another's GPUs"),
        verdict("Lowest sharing ratio", least, least != null && least < 1 - LEVEL, "every tenant gets at least an equal split's worth",
          "a tenant would be better off with an equal split"),
        tile("Tenants", count(shares.length), `${plural(tenants.reduce((n, t) => n + t.waiting, 0), "job")} waiting, ${count(tenants.reduce((n, t) => n + t.running, 0))} hold GPUs`)),
      card("Shares against entitlement", legend(past), bars(app, shares, held, past), remarks(app, shares)),
      card("Envy", matrix(app, it, shares)),
      card("GPUs by tenant and kind", kinds(app, it, shares))],
  ];
}

const verdict = (title, value, bad, good, ill) =>
  tile(title, h("span", { class: bad ? "wrong" : null }, value?.toFixed(2) ?? "–"), value == null ? "unknown" : bad ? ill : good);

const legend = (past) => h("p", { class: "legend" }, entry("tick", "entitlement"), entry("active", past ? "granted, on average" : "granted"),
  !past && entry("idle", "in use"));

function bars(app, shares, held, past) {
  const most = Math.max(1e-9, ...shares.flatMap((s) => [s.entitlement_ratio, s.granted_ratio, held.get(s.tenant)?.held_ratio ?? 0])) * 1.04;
  const track = (s) => {
    const has = held.get(s.tenant)?.held_ratio;
    return h("div", { class: "share", testid: "share-bar", "data-granted": s.granted_ratio, "aria-hidden": "true" },
      piece(past ? "active whole" : "active", s.granted_ratio / most), !past && piece("idle low", has / most),
      h("i", { class: "mark", style: { left: `${(100 * s.entitlement_ratio) / most}%` } }));
  };
  return table("Shares", ["tenant", "", "#entitled", "#granted", past ? "#GPUs received" : "#in use", "#sharing ratio"],
    shares.map((s) => h("tr", { "data-row": "", tabindex: -1, testid: "share-row", "data-tenant": s.tenant, "data-key": s.tenant },
    h("td", null, app.mark(s.tenant)), h("td", { class: "stretch" }, track(s)), num(percent(s.entitlement_ratio)), num(percent(s.granted_ratio)),
    num(past ? s.received.reduce((a, b) => a + b, 0).toFixed(1) : percent(held.get(s.tenant)?.held_ratio)),
    h("td", { class: s.sharing_ratio != null && s.sharing_ratio < 1 - LEVEL ? "n wrong" : "n",
      title: s.sharing_ratio == null ? "no demand" : null }, s.sharing_ratio?.toFixed(2) ?? "–"))));
}

/** Why a figure is not what one would expect: policy, estimates or rounding. */
function remarks(app, shares) {
  const said = shares.filter((s) => s.notes.length).map((s) => h("p", { class: "note", testid: "share-note" }, app.mark(s.tenant), ` ${s.notes.join("; ")}.`));
  return said.length > 0 && h("div", { class: "remarks" }, said);
}

function matrix(app, it, shares) {
  const shown = shares.slice(0, MOST);
  const order = shown.map((s) => it.tenants.indexOf(s.tenant));
  if (shown.length < 2) return empty("Envy is defined for two or more tenants.");
  const cell = (s, i) => {
    const e = i === it.tenants.indexOf(s.tenant) ? null : s.envy[i];
    if (e == null) return h("td", { class: "n dim" }, i === it.tenants.indexOf(s.tenant) ? "" : "·");
    const kind = e > 1 + LEVEL ? "envious" : e > 1 - LEVEL ? "level" : "";
    return h("td", { class: `n heat ${kind}`, testid: "envy-cell",
      title: `${s.tenant} ${e > 1 + LEVEL ? "prefers" : e > 1 - LEVEL ? "is indifferent to" : "does not prefer"} what ${it.tenants[i]} got: ${e.toFixed(3)}`,
      style: { "--part": `${Math.round(Math.min(1, Math.max(0, e)) ** 2 * 55)}%` } }, e.toFixed(2));
  };
  return [h("p", { class: "note" }, "Rows envy columns. Above 1 the row's tenant prefers the column's GPUs, scaled to entitlement; 1 is indifference.",
    shares.length > MOST && ` Showing the ${MOST} tenants with the largest entitlement of ${count(shares.length)}.`),
  h("div", { class: "scroll" }, h("table", { class: "matrix", "aria-label": "Envy among tenants" },
    h("thead", null, h("tr", null, h("td"), order.map((i) => h("th", { scope: "col" }, h("span", null, it.tenants[i]))))),
    h("tbody", null, shown.map((s) => h("tr", null, h("th", { scope: "row" }, app.mark(s.tenant)), order.map((i) => cell(s, i)))))))];
}

function kinds(app, it, shares) {
  const sums = it.kinds.map((_, k) => shares.reduce((total, s) => total + (s.gpus[k] ?? 0), 0));
  const total = (list) => list.reduce((a, b) => a + b, 0);
  const most = it.kinds.map((_, k) => Math.max(1e-9, ...shares.map((s) => s.gpus[k] ?? 0)));
  const foot = it.capacity && ["usable", ...it.capacity.map((c) => three(c)), three(total(it.capacity))];
  return table("GPUs by tenant and kind", ["tenant", ...it.kinds.map((k) => `#${k}`), "#all"],
    [...shares.map((s) => [[app.mark(s.tenant)],
      ...s.gpus.map((g, k) => h("td", { class: "n heat", style: { "--part": `${Math.round((g / most[k]) * 40)}%` } }, g > 0 ? g.toFixed(1) : "–")),
      h("b", null, total(s.gpus).toFixed(1))]),
      h("tr", { class: "sum" }, h("th", { scope: "row" }, "all tenants"), sums.map((g) => num(g.toFixed(1))), num(total(sums).toFixed(1)))], foot);
}
