// The dashboard: routes, the rhythm of refreshing, keys, notices. The API under /v1 is the only source of what is shown.
//
// A view is `mount(root, app)`, which returns `{ refresh, close?, resize? }`. `refresh` is called at most once a second, when something
// happened (the stream of events says so) and now and then besides, never twice at once, and not while nobody looks.
// Where one is and which job is open stands in the address, so that every sight can be linked to: `#/jobs?state=running&job=7`.
//
// For tests, `data-testid`:
//   nav-cluster nav-queue nav-jobs nav-fairness nav-energy nav-estimates nav-decisions   links of the views
//   search theme-toggle connection clock countdown policy-now   the head
//   token-form token-input token-submit   asked for after a 401;  sign-out   forgets the token
//   notice notice-close   refusals, message and hint;  confirm-yes confirm-no   of every question
//   gpu-map gpu-detail colour-by tile-gpus tile-watts tile-jobs tile-waiting   cluster
//   queue-row (data-job) reason-chip (data-code)   queue
//   job-row (data-job) filter-state filter-tenant filter-workload jobs-scroll new-job   jobs
//   submit-form field-workload field-tenant field-name field-gang field-steps field-period field-kinds field-floor field-weight
//   dry-run-button dry-run-result submit-button   the form
//   drawer drawer-close explain-text job-state cancel-button   one job
//   window-select share-row (data-tenant) share-bar envy-cell   fairness;  energy-total energy-row (data-name)   energy
//   estimate-plot estimate-row   estimates
//   policy-select policy-preview policy-forecast switch-button change-row event-row decision-round   decisions

import { Fault, get, hasToken, listen, setToken } from "./api.js";
import { absolute, count, dialog, dim, h, key, render, span, speak, watts } from "./base.js";
import { mount as cluster } from "./cluster.js";
import { mount as queue } from "./queue.js";
import { mount as jobs } from "./jobs.js";
import { mount as fairness } from "./fairness.js";
import { mount as energyView } from "./energy.js";
import { mount as estimates } from "./estimates.js";
import { mount as decisions } from "./decisions.js";
import { openDrawer } from "./drawer.js";

const VIEWS = [
  ["cluster", "Cluster", "c", cluster], ["queue", "Queue", "q", queue], ["jobs", "Jobs", "j", jobs], ["fairness", "Fairness", "f", fairness],
  ["energy", "Energy", "e", energyView], ["estimates", "Estimates", "s", estimates], ["decisions", "Decisions", "d", decisions],
];
const QUIET_MS = 1000; // between two refreshes
const LIVE_MS = 8000; // draws and rates change without events
const POLL_MS = 3000; // without the stream
const FEED = 200; // events kept
const SILENT_MS = 25_000; // without a word from the server, though it is asked every few seconds

const $ = (id) => document.getElementById(id);
const main = $("main");

const app = {
  server: null, tenants: [], allocation: null, feed: [], params: new URLSearchParams(), view: "",
  connected: false,
  dropped: null, lost: null, shownSince: 0,
  /** The scheduler's clock, run on from the last answer; it stands still while nobody knows what time it is there. */
  now: () => (app.server ? app.server.now + (((lostSince() ?? performance.now()) - app.heard) / 1000) * app.server.speed : Date.now() / 1000),
  /** Whether the caller may submit and cancel (`submit`), switch policies (`operate`), see everything (`read`). */
  can: (need) => {
    const scope = app.server?.scope;
    if (need === "submit") return scope !== "read";
    if (need === "read") return scope !== "tenant";
    return scope === "operator" || scope === "admin";
  },
  hueOf: (tenant) => app.hues?.get(tenant) ?? "others",
  /** A tenant's mark and name. */
  mark: (tenant) => [key(app.hueOf(tenant)), tenant],
  notice, wake, go, set, link, confirm,
  /** Runs something that may be refused, and says so if it is. */
  attempt: async (work) => {
    try { return await work(); } catch (fault) { report(fault); return null; }
  },
};

// Where we are.

function link(view, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) if (value != null && value !== "") query.set(name, value);
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

/** Changes parameters of the address. */
function go(changes, view = app.view) {
  location.hash = link(view, view === app.view ? { ...Object.fromEntries(app.params), ...changes } : changes);
}

/** The same without a step in the history. */
function set(changes) {
  history.replaceState(null, "", link(app.view, { ...Object.fromEntries(app.params), ...changes }));
  route();
}

let shown = null;
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const chosen = VIEWS.find(([name]) => name === path) ?? VIEWS[0];
  app.params = new URLSearchParams(query ?? "");
  if (!app.server) return;
  if (app.view !== chosen[0]) {
    shown?.close?.();
    app.view = chosen[0];
    main.replaceChildren();
    main.className = `view-${chosen[0]}`;
    main.setAttribute("aria-label", chosen[1]);
    document.title = `${chosen[1]} · arles`;
    const root = h("div", { class: "view" }); // its own, so that an answer that comes late draws into nothing
    main.append(root);
    shown = chosen[3](root, app);
    drawNav();
    scrollTo(0, 0);
  }
  openDrawer(app, Number(app.params.get("job")) || null);
  wake(true);
}

function drawNav() {
  render($("nav"), VIEWS.map(([name, title, letter], i) =>
    h("a", { href: `#/${name}`, testid: `nav-${name}`, "aria-current": app.view === name ? "page" : null,
      title: `${title} (g ${letter}, or ${i + 1})` }, title)));
}

// The rhythm.

let [timer, running, again, lastRun, pauseUntil, stale, trouble] = [null, false, false, 0, 0, true, null];

const look = () => Promise.all([shown?.refresh(), openDrawer.refresh?.()]);

/** Asks for a refresh soon; `now` waits neither for the second to be over nor for a slow answer to something else. */
function wake(now = false) {
  if (running) { again = true; if (now) app.attempt(look); return; }
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, pauseUntil - performance.now(), now ? 0 : lastRun + QUIET_MS - performance.now()));
}

function later() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, Math.max(app.connected ? LIVE_MS : POLL_MS, pauseUntil - performance.now()));
}

async function refresh() {
  if (running || document.hidden || !app.server) return;
  [running, again, lastRun] = [true, false, performance.now()];
  try {
    await Promise.all([head(), look()]);
    clearNotice(trouble);
    trouble = null;
  } catch (fault) {
    trouble = fault.code;
    if (fault.status === 0) lose();
    report(fault);
  }
  running = false;
  drawStrip();
  if (again) wake(); else later();
}

async function head() {
  await hearServer();
  const wanted = [];
  if (stale || app.tenantsAt !== app.server.round) wanted.push(get("tenants").then(setTenants));
  if (app.allocation?.current_round !== app.server.round) wanted.push(get("allocation").then((a) => { app.allocation = a; }));
  stale = false;
  app.tenantsAt = app.server.round;
  await Promise.all(wanted);
}

async function hearServer() {
  const server = await get("server");
  [app.server, app.heard, app.dropped, app.lost] = [server, performance.now(), null, null];
}

/** When the server was lost: it refused a connection, or says nothing though it is asked. `null` while it is there. */
function lostSince() {
  if (app.lost != null) return app.lost;
  const last = Math.max(app.heard, app.shownSince);
  return !document.hidden && performance.now() - last > SILENT_MS ? last : null;
}

/** Notes that the server cannot be reached. */
function lose() {
  if (app.server && app.lost == null) {
    app.lost = Math.max(app.heard, app.dropped ?? performance.now());
    speak("connection lost");
  }
}

/** Ten tenants have a colour: all where there are no more, else those entitled to most, so that colours stay all day. */
function setTenants({ tenants }) {
  app.tenants = tenants;
  const ranked = tenants.length > 10 ? [...tenants].sort((a, b) => b.entitlement_ratio - a.entitlement_ratio) : tenants;
  app.hues = new Map(ranked.slice(0, 10).map((t, rank) => [t.name, `e${rank}`]));
  drawNames();
}

let stop = null;
function follow() {
  stop?.abort();
  if (document.hidden) return;
  stop = new AbortController();
  const after = app.feed[0]?.id ?? Math.max(0, app.server.last_event - 60);
  listen(after, {
    event: (event) => {
      app.feed.unshift(event);
      app.feed.length = Math.min(app.feed.length, FEED);
      if (event.what === "tenant") stale = true;
      if (event.what === "node") app.nodesStale = true;
      if (event.what === "trouble") speak(event.text);
      wake();
    },
    reset: () => { [app.feed, app.allocation, app.nodesStale, stale] = [[], null, true, true]; wake(); },
    connected: (is) => {
      // Whether only the stream has ended, or the server too, the next request says.
      if (!is && app.connected) { app.dropped = performance.now(); wake(); }
      app.connected = is;
      drawStrip();
    },
    unauthorized: askToken,
  }, stop.signal);
}

// The head.

function countdown() {
  const { round_seconds: length } = app.server;
  const since = app.allocation?.decided_at;
  if (since == null || !(length > 0) || lostSince() != null) return "–";
  const left = Math.ceil(length - ((((app.now() - since) % length) + length) % length));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

function drawStrip() {
  const server = app.server;
  if (!server) return;
  const fact = (name, value, testid, title) => h("span", { class: "fact", title }, dim(name), " ", h("b", { testid }, value));
  const lost = lostSince();
  const link = lost != null
    ? ["lost", "the server does not respond; what is shown is as it was then", `connection lost since ${absolute((Date.now() - performance.now() + lost) / 1000)}`]
    : app.connected ? ["up", "live updates", "live"] : ["", "event stream disconnected; polling every few seconds", "polling"];
  render($("strip"),
    h("span", { class: `fact link ${link[0]}`, testid: "connection", title: link[1] }, link[2]),
    fact("policy", server.policy, "policy-now"),
    fact("round", count(server.round)),
    fact("next", countdown(), "countdown", `one scheduling round every ${span(server.round_seconds)}`),
    fact("clock", absolute(app.now()), "clock", "the scheduler's clock"),
    server.speed !== 1 && fact("speed", `×${server.speed}`),
    fact("power", watts(server.watts)),
    fact("live jobs", count(server.live_jobs)),
    h("span", { class: "fact end dim" }, server.tenant ? `tenant ${server.tenant}` : server.scope, ` · ${server.engine} · ${server.version}`),
    hasToken() && h("button", { class: "plain small", testid: "sign-out", onclick: () => { setToken(null); location.reload(); } }, "sign out"));
}

function drawNames() {
  const names = [...app.tenants.map((t) => t.name), ...(app.workloads ?? [])];
  render($("names"), names.slice(0, 2000).map((name) => h("option", { value: name })));
}

function find(event) {
  event.preventDefault();
  const text = $("search").value.trim();
  if (!text) return;
  if (/^#?\d+$/.test(text)) go({ job: text.replace("#", "") });
  else if (app.tenants.some((t) => t.name === text)) go({ tenant: text }, "jobs");
  else go({ workload: text }, "jobs");
  $("search").value = "";
  main.focus({ preventScroll: true });
}

// Notices and questions.

const notices = new Map();
function drawNotices() {
  render($("notices"), [...notices].map(([code, { message, hint, good }]) =>
    h("div", { class: good ? "notice good" : "notice", testid: "notice", "data-key": code },
      h("div", null, h("b", null, message), hint && h("span", { class: "hint" }, hint)),
      h("button", { class: "plain", "aria-label": "Dismiss", testid: "notice-close", onclick: () => clearNotice(code) }, "✕"))));
}
function notice(code, message, hint, good = false) {
  notices.set(code, { message, hint, good });
  while (notices.size > 4) notices.delete(notices.keys().next().value);
  drawNotices();
  if (good) setTimeout(() => clearNotice(code), 8000);
}
function clearNotice(code) {
  if (notices.delete(code)) drawNotices();
}

function report(fault) {
  if (!(fault instanceof Fault)) { notice("dashboard", `dashboard error: ${fault.message}`,
    "reload the page; if the error stays, report it"); console.error(fault); return; }
  if (fault.status === 401) { askToken(); return; }
  if (fault.retryAfter) pauseUntil = performance.now() + fault.retryAfter * 1000;
  notice(fault.code, fault.message, fault.hint);
}

async function confirm(title, text, yes) {
  return (await dialog(title, h("p", null, text), [["", "Keep", "", "confirm-no"], ["yes", yes, "danger", "confirm-yes"]])) === "yes";
}

let asking = false;
async function askToken() {
  if (asking) return;
  asking = true;
  stop?.abort();
  const field = h("input", { type: "password", name: "token", required: true, autocomplete: "off", maxlength: 500, autofocus: true,
    testid: "token-input", "aria-label": "Token" });
  const body = h("div", { testid: "token-form" },
    hasToken() && h("p", { class: "wrong" }, "Invalid or revoked token."),
    h("p", null, "This server requires a token. Its admin creates tokens with ", h("code", null, "arles token"),
      "; yours is kept until you close this tab."), field);
  await dialog("Token", body, [["ok", "Sign in", "primary", "token-submit"]], { class: "narrow" });
  setToken(field.value.trim());
  asking = false;
  begin();
}

// Keys.

const KEYS = [["g c, g q, … or 1–7", "go to a view; hover over its name to see its letter"],
  ["/", "find a job number, a tenant or a workload"], ["j  k", "next and previous row of a list"],
  ["Enter", "open the row or GPU"], ["← ↑ ↓ →", "move over the GPUs when the map has the focus"], ["n", "submit a job"],
  ["t", "light, dark or system theme"], ["Esc", "close the open panel"], ["?", "this help"]];
const help = () => dialog("Keys", h("dl", { class: "keys" },
  KEYS.map(([k, what]) => h("div", null, h("dt", null, h("kbd", null, k)), h("dd", null, what)))), [["", "Close", ""]]);

function moveRow(step) {
  const rows = [...main.querySelectorAll("tr[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement?.closest("tr[data-row]") ?? main.querySelector("tr[aria-current]"));
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

let leader = 0;
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (app.params.has("job")) go({ job: null });
    else if (notices.size) clearNotice([...notices.keys()].pop());
    return;
  }
  if (typing) return;
  const led = performance.now() - leader < 1200;
  leader = 0;
  const view = led ? VIEWS.find(([, , letter]) => letter === event.key) : VIEWS[Number(event.key) - 1];
  if (view) location.hash = `#/${view[0]}`;
  else if (event.key === "g") leader = performance.now();
  else if (event.key === "/") $("search").focus();
  else if (event.key === "?") help();
  else if (event.key === "t") turnTheme();
  else if (event.key === "n" && app.can("submit")) import("./submit.js").then((m) => m.openSubmit(app));
  else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
}

function onRow(event) {
  const row = event.target.closest("[data-job]");
  if (!row || event.target.closest("a, button, input, select") || (event.type === "keydown" && event.key !== "Enter")) return;
  if (String(getSelection())) return;
  go({ job: row.dataset.job });
}

// Light and dark.

const THEMES = ["auto", "light", "dark"];
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = { auto: "◐", light: "○", dark: "●" }[name];
  $("theme").title = `Paper: ${name} (t)`;
  $("theme").setAttribute("aria-label", `Theme: ${name}`);
  try { localStorage.setItem("arles-theme", name); } catch { /* private windows may refuse; it lasts as long as the page */ }
  shown?.resize?.();
}
const turnTheme = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]);

// The beginning.

async function begin() {
  try {
    await hearServer();
    await head();
  } catch (fault) {
    report(fault);
    if (fault.status !== 401) setTimeout(begin, 3000);
    return;
  }
  notices.clear();
  drawNotices();
  drawStrip();
  follow();
  app.view = "";
  route();
  get("workloads").then(({ workloads }) => { app.workloads = workloads; drawNames(); }).catch(() => {});
}

let saved = null;
try { saved = localStorage.getItem("arles-theme"); } catch { /* as above */ }
setTheme(THEMES.includes(saved) ? saved : "auto");
drawNav();
addEventListener("hashchange", route);
addEventListener("keydown", onKey);
addEventListener("resize", () => shown?.resize?.());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.resize?.());
document.addEventListener("visibilitychange", () => {
  app.shownSince = performance.now();
  if (app.server) { follow(); wake(); }
});
main.addEventListener("click", onRow);
main.addEventListener("keydown", onRow);
$("find").addEventListener("submit", find);
$("theme").addEventListener("click", turnTheme);
$("help-button").addEventListener("click", help);
$("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
setInterval(() => { if (!document.hidden) drawStrip(); }, 1000);
begin();
