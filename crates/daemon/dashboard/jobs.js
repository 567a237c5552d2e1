// All jobs, live and past: a list of any length of which about a hundred rows exist at a time.
//
// The API hands out pages behind cursors, so the list grows as it is scrolled. A page that is far away keeps its cursor and forgets its
// jobs; it is read again when it comes near. A refresh reads the pages in sight. If one of them then ends elsewhere than before, the
// pages behind it are dropped, since their cursors no longer follow.

import { get } from "./api.js";
import { absolute, count, dim, empty, h, heads, labelled, num, rate, render, state, when } from "./base.js";
import { openSubmit } from "./submit.js";

const PAGE = 100;
const ROW = 31; // pixels, as in the style sheet
const MARGIN = 12; // rows beyond what is in sight
const NEAR = 6; // pages on either side that keep their jobs
const STATES = ["waiting", "starting", "running", "stopping", "completed", "failed", "cancelled"];
const LIVE = STATES.slice(0, 4).join(",");

export function mount(root, app) {
  const tools = h("div", { class: "tools" });
  const body = h("tbody");
  const scroller = h("div", { class: "sheet long", tabindex: -1, testid: "jobs-scroll" },
    h("table", { class: "rows jobs", "aria-label": "Jobs" },
      heads(["#job", "state", "tenant", "workload", "#GPUs", "location", "#done", "#rate", "#submitted", "#ended"]), body));
  root.append(h("div", { class: "headline" }, h("h1", null, "Jobs"),
    app.can("submit") && h("button", { class: "primary", testid: "new-job", onclick: () => openSubmit(app) }, "Submit a job")), tools, scroller);
  const it = { app, tools, body, scroller, pages: [], generation: 0, loading: new Set() };
  let frame = 0;
  scroller.onscroll = () => { frame ||= requestAnimationFrame(() => { frame = 0; draw(it); }); };
  return { refresh: () => refresh(it), resize: () => draw(it), close: () => cancelAnimationFrame(frame) };
}

const asked = (app) => ({
  state: app.params.get("state") === "live" ? LIVE : app.params.get("state"),
  tenant: app.params.get("tenant"), workload: app.params.get("workload"), order: app.params.get("order"),
});

async function refresh(it) {
  const filter = asked(it.app);
  const text = JSON.stringify(filter);
  if (it.filter !== text) {
    Object.assign(it, { filter: text, pages: [{ cursor: null, jobs: null, length: 0 }], generation: it.generation + 1 });
    it.scroller.scrollTop = 0;
  }
  drawTools(it);
  const [first, last] = inSight(it);
  await Promise.all(it.pages.map((page, i) => (i >= first && i <= last ? read(it, page, filter) : null)));
  draw(it);
}

async function read(it, page, filter) {
  if (it.loading.has(page)) return;
  it.loading.add(page);
  const generation = it.generation;
  try {
    const got = await get("jobs", { ...filter, limit: PAGE, cursor: page.cursor });
    const at = it.pages.indexOf(page);
    if (generation !== it.generation || at < 0) return;
    Object.assign(page, { jobs: got.jobs, length: got.jobs.length });
    it.live = got.live;
    if (it.pages[at + 1]?.cursor !== (got.next ?? undefined)) {
      it.pages.length = at + 1;
      if (got.next) it.pages.push({ cursor: got.next, jobs: null, length: 0 });
    }
  } finally {
    it.loading.delete(page);
  }
}

/** Rows in sight, with a margin. */
function rowsInSight(it) {
  const first = Math.max(0, Math.floor(it.scroller.scrollTop / ROW) - MARGIN);
  return [first, first + Math.ceil(it.scroller.clientHeight / ROW) + 2 * MARGIN];
}

/** First and last page of which rows are in sight. */
function inSight(it) {
  const [from, to] = rowsInSight(it);
  let [row, first, last] = [0, it.pages.length - 1, 0];
  it.pages.forEach((page, i) => {
    if (row + page.length >= from && i < first) first = i;
    if (row <= to) last = i;
    row += page.length;
  });
  return [first, last];
}

function draw(it) {
  const [from, to] = rowsInSight(it);
  const [first, last] = inSight(it);
  const rows = [];
  let [row, top] = [0, 0];
  it.pages.forEach((page, i) => {
    if (Math.abs(i - first) > NEAR && i !== last) page.jobs = null;
    else if (i >= first && i <= last && !page.jobs) it.app.attempt(() => read(it, page, asked(it.app))).then(() => { if (page.jobs) draw(it); });
    const [a, b] = [Math.max(from, row) - row, Math.min(to, row + page.length) - row];
    if (b > a) {
      if (!rows.length) top = row + a;
      for (let k = a; k < b; k++) rows.push(page.jobs ? line(it.app, page.jobs[k]) : h("tr", { class: "pending" }, h("td", { colspan: 10 }, "…")));
    }
    row += page.length;
  });
  const spacer = (n, name) => h("tr", { class: "spacer", "data-key": name, "aria-hidden": "true", style: { height: `${n * ROW}px` } });
  const known = it.pages[0]?.jobs != null || row > 0;
  if (known && row === 0) render(it.body, h("tr", null,
    h("td", { colspan: 10 }, empty(it.app.params.size ? "No matching jobs. Remove a filter." : "No jobs yet. Submit one here, or with “arles submit”."))));
  else render(it.body, spacer(top, "above"), rows, spacer(Math.max(0, row - top - rows.length), "below"),
    it.pages.at(-1)?.jobs == null && h("tr", { class: "pending", "data-key": "more" }, h("td", { colspan: 10 }, "…")));
}

function line(app, job) {
  const now = app.now();
  const where = job.place ? `${job.place.gpus.length} × ${job.place.kind}${job.place.shared ? ", shared" : ""}` : "";
  const low = job.floor != null && job.rate != null && job.rate < job.floor * 0.999;
  return h("tr", { "data-row": "", testid: "job-row", "data-job": job.id, "data-key": job.id, tabindex: -1,
    "aria-current": app.params.get("job") === String(job.id) || null },
    num(h("a", { href: app.link("jobs", { ...Object.fromEntries(app.params), job: job.id }) }, job.id)),
    h("td", null, state(job.state)), h("td", { class: "clip" }, app.mark(job.tenant)),
    h("td", { class: "clip wide", title: job.name ? `${job.workload} · ${job.name}` : job.workload }, job.workload, job.name && dim(` ${job.name}`)),
    num(job.gang),
    h("td", { class: "clip", title: job.place?.nodes.join(", ") ?? job.reason?.text }, where || dim(job.reason?.text ?? "")),
    num(job.done_ratio == null ? "–" : `${Math.floor(job.done_ratio * 100)} %`),
    h("td", { class: low ? "n wrong" : "n", title: low ? "below its guaranteed rate" : null }, rate(job.rate)),
    num(when(job.submitted_at, now)), num(job.ended_at == null ? dim("–") : when(job.ended_at, now)));
}

function drawTools(it) {
  const { app } = it;
  const set = (name) => (event) => app.set({ [name]: event.target.value.trim() || null });
  const pick = (name, options) => labelled(name,
    h("select", { testid: `filter-${name}`, onchange: set(name), value: app.params.get(name) ?? "" }, options.map(([value, text]) => h("option", { value }, text))));
  const own = app.server.scope === "tenant";
  const live = it.live?.filter((c) => c.jobs > 0).map((c) => `${count(c.jobs)} ${c.state}`).join(" · ");
  render(it.tools,
    pick("state", [["", "any"], ["live", "all live"], ...STATES.map((s) => [s, s])]),
    !own && pick("tenant", [["", "any"], ...app.tenants.map((t) => [t.name, t.name])]),
    labelled("workload", h("input", { list: "workload-names", testid: "filter-workload", placeholder: "any", maxlength: 200,
      value: app.params.get("workload") ?? "", onchange: set("workload") })),
    h("datalist", { id: "workload-names" }, (app.workloads ?? []).map((value) => h("option", { value }))),
    pick("order", [["", "newest first"], ["oldest", "oldest first"]]),
    ["state", "tenant", "workload"].some((p) => app.params.get(p)) && h("a", { href: "#/jobs", class: "chip" }, "clear"),
    h("span", { class: "dim end", title: `as of ${absolute(app.now())}` }, live));
}
