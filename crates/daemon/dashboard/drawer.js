// One job, beside whatever view is open: what it is, where it runs or why it waits, how fast it is against the estimate, what it cost.

import { call, get } from "./api.js";
import { absolute, fact, count, dim, energy, h, piece, plural, rate, render, span, speak, state, table, three, watts, when } from "./base.js";

const drawer = document.getElementById("drawer");
let [open, last, told] = [null, null, null];

/** Shows this job, or closes the drawer for `null`. */
export function openDrawer(app, id) {
  if (id === open) return;
  const fresh = id && !open;
  if (fresh) last = document.activeElement;
  open = id;
  drawer.hidden = !id;
  drawer.setAttribute("data-testid", "drawer");
  openDrawer.refresh = id ? () => load(app, id) : null;
  if (!id) { drawer.replaceChildren(); last?.isConnected && last.focus({ preventScroll: true }); return; }
  render(drawer, head(app, id, null), h("p", { class: "dim" }, "…"));
  if (fresh) drawer.focus({ preventScroll: true });
}

async function load(app, id) {
  let [job, why] = [null, null];
  try {
    [job, why] = await Promise.all([get(`jobs/${id}`),
      get(`jobs/${id}/explain`).catch((fault) => { if (fault.status === 401 || !fault.status) throw fault; return null; })]);
  } catch (fault) {
    if (fault.status !== 404 || open !== id) throw fault;
    render(drawer, head(app, id, null), h("p", null, fault.message), h("p", { class: "dim" }, fault.hint));
    return;
  }
  if (open !== id) return;
  if (told !== id) speak(`job ${id} of ${job.tenant}: ${job.state}. ${(why?.reason ?? job.reason)?.text ?? ""}`);
  told = id;
  render(drawer, head(app, id, job), draw(app, job, why));
}

const head = (app, id, job) => h("header", null,
  h("h2", null, `Job ${id}`, job?.name && dim(` ${job.name}`)),
  h("button", { class: "plain", "aria-label": "Close", testid: "drawer-close", onclick: () => app.go({ job: null }) }, "✕"));

const over = (job) => ["completed", "failed", "cancelled"].includes(job.state);

function draw(app, job, why) {
  const now = app.now();
  const reason = why?.reason ?? job.reason;
  return [
    h("p", { class: "lead" }, h("b", { testid: "job-state" }, state(job.state)),
      reason && h("span", { testid: "explain-text" }, reason.text)),
    why?.starts_at != null && h("p", null, "Estimated start: ", when(why.starts_at, now), dim(` (${absolute(why.starts_at)})`)),
    progress(job, now),
    h("dl", { class: "facts" },
      fact("tenant", h("a", { href: app.link("jobs", { tenant: job.tenant }) }, app.mark(job.tenant))),
      fact("workload", h("a", { href: app.link("jobs", { workload: job.workload }) }, job.workload)),
      fact("gang", plural(job.gang, "GPU"), job.largest_gang ? ` (can use ${job.smallest_gang} to ${job.largest_gang})` : "", job.kinds.length ? ` of ${job.kinds.join(", ")}` : " of any kind"),
      job.place && fact("place", place(app, job.place)),
      fact("submitted", when(job.submitted_at, now)),
      job.started_at != null && fact("first start", when(job.started_at, now), ` after ${span(job.started_at - job.submitted_at)}`),
      job.ended_at != null && fact("ended", when(job.ended_at, now)),
      fact("rate", rates(job)),
      job.floor != null && fact("promised", h("span", { class: job.rate != null && job.rate < job.floor * 0.999 ? "wrong" : null }, rate(job.floor))),
      fact("weight", three(job.weight)),
      fact("restarts", `${count(job.restarts)}, ${span(job.restart_seconds)} each`,
        job.failures > 0 && h("span", { class: "wrong" }, ` · ${plural(job.failures, "failure")} in a row`)),
      fact("GPU time", `${three(job.gpu_seconds / 3600)} h`),
      fact("energy", spent(job.energy))),
    job.reported && h("p", { class: "dim" }, `The job reports ${count(job.reported.steps)} steps${job.reported.checkpointed ? ", all checkpointed" : ""}.`),
    why && speeds(why, job),
    why?.standing.length > 0 && [h("h3", null, "Share of its class"),
      table("Standing", ["kind", "#gangs at a time", "#behind, gang-rounds"], why.standing.map((s) => [s.kind, three(s.gangs), three(s.owed)]))],
    !over(job) && app.can("submit") && h("div", { class: "buttons" },
      h("button", { class: "danger", testid: "cancel-button", onclick: () => cancel(app, job) }, "Cancel the job")),
  ];
}

function progress(job, now) {
  if (job.done_ratio == null) return null;
  const left = job.rate > 0 && job.steps != null && !over(job) ? (job.steps - job.steps_done) / job.rate : null;
  const what = job.steps != null ? `${count(job.steps_done)} of ${count(job.steps)} steps` : `of ${span(job.period_seconds)}`;
  return h("div", { class: "progress" },
    h("progress", { max: 1, value: job.done_ratio, "aria-label": "Work done" }),
    h("span", null, `${(job.done_ratio * 100).toFixed(1)} % · ${what}`, left > 0 && [" · estimated end ", when(now + left, now)]));
}

const place = (app, p) => [
  `${p.gpus.length} × ${p.kind} on ${p.nodes.slice(0, 4).join(", ")}${p.nodes.length > 4 ? ` and ${p.nodes.length - 4} more` : ""}`, dim(` · GPU ${ranges(p.gpus)}`), p.spread && " · spread over more nodes than necessary",
  p.shared && " · shared",
  p.partner != null && [" with ", h("a", { href: app.link(app.view, { ...Object.fromEntries(app.params), job: p.partner }) }, `job ${p.partner}`)]];

/** `0–3, 8` for 0 1 2 3 8. */
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) {
    const run = runs.at(-1);
    if (run && run[1] === n - 1) run[1] = n; else runs.push([n, n]);
  }
  return runs.slice(0, 6).map(([a, b]) => (a === b ? a : `${a}–${b}`)).join(", ") + (runs.length > 6 ? " …" : "");
}

function rates(job) {
  if (job.rate == null && job.estimated_rate == null) return "not measured yet";
  const off = job.rate != null && job.estimated_rate > 0 ? job.rate / job.estimated_rate - 1 : null;
  return [job.rate != null ? `${rate(job.rate)} measured` : "not measured yet", job.estimated_rate != null && ` · estimated ${rate(job.estimated_rate)}`,
    off != null && h("span", { class: Math.abs(off) > 0.2 ? "wrong" : "dim" }, ` (${off >= 0 ? "+" : "−"}${Math.abs(off * 100).toFixed(0)} %)`)];
}

const spent = (e) => `${energy(e.active_joules + e.idle_joules + (e.restart_joules ?? 0))}: ${energy(e.active_joules)} active, ${energy(e.idle_joules)} idle, ${energy(e.restart_joules)} restarts`;

function speeds(why, job) {
  if (!why.rates.length) return null;
  const most = Math.max(...why.rates.map((r) => r.rate));
  return [h("h3", null, "Estimated rates"), table("Rates by kind", ["kind", "", "#rate", "#per GPU", "source"], why.rates.map((r) => [
    r.kind === job.place?.kind ? h("b", null, r.kind) : r.kind, h("div", { class: "bar" }, piece("active", r.rate / most)),
    h("span", { title: r.standard_error == null ? "" : `standard error ${(r.standard_error * 100).toFixed(0)} %` }, rate(r.rate), r.standard_error > 0 && dim(` ±${(r.standard_error * 100).toFixed(0)} %`)),
    watts(r.watts), dim(r.source)]))];
}

async function cancel(app, job) {
  const loss = job.done_ratio > 0 ? ` ${(job.done_ratio * 100).toFixed(1)} % of the work is done.` : "";
  if (!(await app.confirm(`Cancel job ${job.id}?`, `${job.workload} of ${job.tenant} will be stopped and not restarted.${loss}`, "Cancel the job"))) return;
  const done = await app.attempt(() => call("DELETE", `jobs/${job.id}`));
  if (done) app.notice("cancelled", `job ${job.id} is ${done.state}`, "", true);
  app.wake(true);
}
