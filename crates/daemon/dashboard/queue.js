// Who waits, why, and until when. The reasons are counted over all that wait; the list is read page by page.
//
// The API gives the queue oldest first and knows no filter by reason, so with a reason chosen pages are read on, as large as its part of
// the queue asks for, until a screenful of it is found or a bound is reached; a button reads further.

import { get } from "./api.js";
import { count, dim, empty, h, heads, num, plural, render, span, when } from "./base.js";

const PAGE = 100;
const SCREENFUL = 50; // rows of the chosen reason, after which no further page is read
const PAGES = 4; // read at most for one refresh

const NAMES = {
  "no-estimate": "no estimate yet", "fits-no-kind": "fits no kind", "gang-too-large": "gang too large", "nodes-away": "nodes unavailable",
    pauses: "backing off after a failure",
  "next-round": "next round", "place-not-vacated": "GPUs not yet released", turns: "time-sharing", "kept-free": "GPUs kept free to save power", queued: "GPUs busy",
};

export function mount(root, app) {
  const it = { reasons: [], jobs: [], more: false, looked: 0, skip: [], from: null };
  return { refresh: () => load(root, app, it) };
}

async function load(root, app, it) {
  const code = app.params.get("reason");
  if (it.code !== code) [it.code, it.skip, it.from] = [code, [], null];
  const found = [];
  let [cursor, looked, page] = [it.from, 0, null];
  const all = it.reasons.reduce((sum, r) => sum + r.jobs, 0);
  const part = code ? (it.reasons.find((r) => r.code === code)?.jobs ?? 0) / Math.max(1, all) : 1;
  const limit = Math.round(Math.min(1000, Math.max(PAGE, (1.2 * SCREENFUL) / Math.max(part, 1e-3))));
  for (let i = 0; i < PAGES; i++) {
    page = await get("queue", { limit, cursor });
    looked += page.jobs.length;
    for (const job of page.jobs) if (!code || job.reason?.code === code) found.push(job);
    cursor = page.next;
    if (!cursor || found.length >= SCREENFUL) break;
  }
  Object.assign(it, { jobs: found, reasons: page.reasons, next: cursor, looked });
  draw(root, app, it);
}

function draw(root, app, it) {
  const waiting = it.reasons.reduce((sum, r) => sum + r.jobs, 0);
  const chip = (code, text, n) => h("button", { class: "chip", testid: "reason-chip", "data-code": code ?? "", "aria-pressed": (it.code ?? null) === code,
    onclick: () => app.set({ reason: it.code === code ? null : code, job: null }) }, text, " ", h("b", null, count(n)));
  render(root,
    h("h1", null, "Queue ", h("small", null, plural(waiting, "job"), waiting === 1 ? " waits" : " wait")),
    h("div", { class: "tools", role: "group", "aria-label": "Reasons" }, chip(null, "all", waiting),
      [...it.reasons].sort((a, b) => b.jobs - a.jobs).map((r) => chip(r.code, NAMES[r.code] ?? r.code, r.jobs))),
    it.jobs.length ? list(app, it) : empty(waiting ? "No job waits for this reason any more."
      : "The queue is empty. Submit a job with “n”, or with “arles submit”."),
    pager(app, it));
}

function list(app, it) {
  const now = app.now();
  return h("div", { class: "sheet scroll" }, h("table", { class: "rows queue", "aria-label": "Waiting jobs, oldest first" },
    heads(["#job", "tenant", "workload", "#~GPUs", "~submitted", "reason", "estimated start"]),
    h("tbody", null, it.jobs.map((job) => h("tr", { "data-row": "", testid: "queue-row", "data-job": job.id, "data-key": job.id, tabindex: -1,
      "aria-current": app.params.get("job") === String(job.id) || null },
      num(h("a", { href: app.link("queue", { reason: it.code, job: job.id }) }, job.id)),
      h("td", { class: "clip" }, app.mark(job.tenant)),
      h("td", { class: "clip", title: job.workload }, job.workload),
      h("td", { class: "n less" }, job.gang),
      h("td", { class: "less" }, when(job.submitted_at, now)),
      h("td", { class: "why" }, job.reason?.text ?? "–"),
      h("td", null, job.reason?.seconds != null ? h("span", { title: `in ${span(job.reason.seconds)}` },
        when(now + job.reason.seconds, now)) : dim("unknown")))))));
}

function pager(app, it) {
  if (!it.next && !it.from) return null;
  return h("div", { class: "tools" },
    it.from && h("button", { class: "chip", onclick: () => { it.from = it.skip.pop() ?? null; app.wake(true); } }, "← earlier"),
    it.next && h("button", { class: "chip", onclick: () => { it.skip.push(it.from); it.from = it.next; app.wake(true); } }, "later →"),
    it.code && dim(`${plural(it.jobs.length, "job")} of ${plural(it.looked, "waiting job")} read`));
}
