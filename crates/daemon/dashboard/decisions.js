// The decision in force, what the last rounds changed, what else could be in force, and everything that happens, as it happens.
//
// A policy is switched in two steps: first the scheduler plays both policies ahead and says who would get what, then somebody confirms.

import { call, get } from "./api.js";
import { card, fact, count, dim, empty, entry, h, labelled, num, piece, plural, render, span, speak, table, watts, when } from "./base.js";

const CHANGES = 25;
const EVENTS = 80;
const HUES = { start: "p2", stop: "p1", move: "p0" };

export function mount(root, app) {
  const it = { policies: null, chosen: null, forecast: null, busy: false };
  const redraw = () => { if (it.decision) render(root, draw(app, it, redraw)); };
  return { refresh: async () => {
    const [decision, policies] = await Promise.all([get("allocation"), get("policies")]);
    Object.assign(it, { decision, policies: policies.policies });
    app.allocation = decision;
    redraw();
  } };
}

function draw(app, it, redraw) {
  const { decision } = it;
  const now = app.now();
  return [
    h("h1", null, "Decisions"),
    h("div", { class: "columns" },
      h("div", null,
        card("Current allocation", h("dl", { class: "facts" },
          fact("round", h("b", { testid: "decision-round" }, count(decision.round)),
            decision.round !== decision.current_round && dim(` · now in round ${count(decision.current_round)}`)),
          fact("decided", when(decision.decided_at, now)), fact("policy", h("b", null, decision.policy)),
          fact("solved in", span(decision.solve_seconds)),
          fact("for", `${plural(decision.tenants.length, "tenant")} on ${plural(decision.kinds.length, "kind")}`)),
        decision.failure && h("p", { class: "caution" },
          `The policy returned no usable allocation last time: ${decision.failure}. The previous one stays in force.`),
        h("p", null, h("a", { href: "#/fairness" }, "Fairness of the allocation"))),
        card("Recent changes", changes(app, decision.changes, "No recent starts, stops or moves."))),
      h("div", null, policies(app, it, redraw))),
  ];
}

function changes(app, list, none) {
  if (!list.length) return empty(none);
  const line = (c) => h("tr", { "data-row": "", tabindex: -1, testid: "change-row", "data-job": c.job },
    h("td", null, h("span", { class: `state ${HUES[c.what] ?? "dim"}` }, c.what)),
    num(h("a", { href: app.link("decisions", { job: c.job }) }, c.job)),
    h("td", null, app.mark(c.tenant)), h("td", null, c.from ?? "–"), h("td", null, c.to ?? "–"));
  return [table("Changes", ["", "#job", "tenant", "from", "to"], list.slice(0, CHANGES).map(line)),
  list.length > CHANGES && h("p", { class: "note" }, `and ${count(list.length - CHANGES)} more`)];
}

function feed(app, now) {
  if (!app.feed.length) return empty(app.connected ? "No events since this page was opened." : "Event stream disconnected; reconnecting.");
  const line = (e) => h("li", { testid: "event-row", "data-key": `e${e.id}`, "data-job": e.job, class: /trouble|failed/.test(e.what) && "wrong" },
    dim(when(e.at, now)), h("span", { class: "what" }, e.what), h("span", null, e.text));
  return h("ol", { class: "feed" }, app.feed.slice(0, EVENTS).map(line));
}

function policies(app, it, redraw) {
  const current = it.policies.find((p) => p.current)?.name ?? it.decision.policy;
  const chosen = it.chosen ?? current;
  const shown = it.policies.find((p) => p.name === chosen);
  const choose = (name) => { Object.assign(it, { chosen: name, forecast: null }); redraw(); };
  const preview = async () => {
    it.busy = true;
    redraw();
    it.forecast = await app.attempt(() => call("POST", "dry-run/policy", { body: { policy: chosen } }));
    it.busy = false;
    if (it.forecast) speak(`${plural(it.forecast.changed, "job")} would change`);
    redraw();
  };
  const change = async () => {
    if (!(await app.confirm(`Switch to ${chosen}?`,
      `${chosen} replaces ${current} in the next round. ${plural(it.forecast.changed, "job")} would start, stop or move.`,
      "Switch"))) return;
    const done = await app.attempt(() => call("PUT", "policy", { body: { policy: chosen } }));
    if (done) {
      Object.assign(it, { chosen: null, forecast: null });
      app.notice("switched", `policy ${done.name} takes effect in the next round`, "", true);
    }
    app.wake(true);
  };
  return [
    app.can("read") && card("Switch policy",
      h("div", { class: "tools" },
        labelled("policy", h("select", { testid: "policy-select", value: chosen, onchange: (event) => choose(event.target.value) },
          it.policies.map((p) => h("option", { value: p.name }, p.name, p.current ? " (current)" : "")))),
        h("button", { testid: "policy-preview", disabled: chosen === current || it.busy, onclick: preview },
          it.busy ? "simulating …" : "What would change?"),
        app.can("operate") && h("button", { class: "primary", testid: "switch-button", disabled: !it.forecast || it.forecast.to !== chosen,
          title: it.forecast ? null : "simulate first", onclick: change }, "Switch …")),
      shown && h("p", { class: "note" }, shown.summary),
      it.forecast && forecast(app, it.forecast)),
    card("Events", feed(app, app.now())),
    card("All policies", table("Policies", ["policy", "guarantees and purpose"],
      it.policies.map((p) => h("tr", { class: p.current ? "current" : null, "data-key": p.name },
      h("td", null, p.current ? h("b", null, p.name) : p.name, p.current && h("div", { class: "dim" }, "current")),
        h("td", { class: "free" }, p.promises.map((promise) => h("span", { class: "promise" }, promise)), h("div", null, p.summary)))))),
  ];
}

function forecast(app, f) {
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const gain = (r) => r.after - r.before;
  const rows = f.shares.map((s) => ({ tenant: s.tenant, before: sum(s.before), after: sum(s.after), s }))
    .sort((a, b) => Math.abs(gain(b)) - Math.abs(gain(a))).slice(0, 40);
  const most = Math.max(1e-9, ...rows.flatMap((r) => [r.before, r.after]));
  const by = (list) => f.kinds.map((k, i) => [k, list[i]]).filter(([, n]) => n > 0.005).map(([k, n]) => `${n.toFixed(1)} ${k}`).join(", ");
  const change = (n) => (Math.abs(n) < 0.05 ? "±0" : `${n > 0 ? "+" : "−"}${Math.abs(n).toFixed(1)}`);
  return h("div", { testid: "policy-forecast" },
    h("p", null, h("b", null, plural(f.changed, "job")), ` would start, stop or move under ${f.to}.`,
      f.watts_before != null && f.watts_after != null && ` Draw: ${watts(f.watts_before)} now, ${watts(f.watts_after)} then.`),
    h("p", { class: "legend" }, entry("idle", `GPUs under ${f.from}`), entry("active", `under ${f.to}`)),
    table("Shares before and after", ["tenant", "", "#before", "#after", "#change"],
      rows.map((r) => h("tr", { title: `${by(r.s.before)} → ${by(r.s.after)}` }, h("td", null, app.mark(r.tenant)),
      h("td", { class: "stretch" }, h("div", { class: "share" }, piece("idle", r.before / most), piece("active low", r.after / most))),
      num(r.before.toFixed(1)), num(r.after.toFixed(1)), num(change(gain(r)))))),
    f.changes.length > 0 && h("details", null, h("summary", null, "Which jobs"), changes(app, f.changes, "")));
}
