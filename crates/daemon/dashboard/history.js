// The cluster over the last hours and weeks: utilisation, queue, power and fairness as four small charts with one axis of time.
//
// Points come from /v1/series as averages over stretches of equal length. A stretch that is missing (the daemon did not run) is a gap in the
// line, never a straight line across it.

import { get } from "./api.js";
import { absolute, count, dim, entry, h, percent, render, s, showTip, span, three, watts } from "./base.js";

const WINDOWS = [["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["30 d", 2592000]];
const EVERY_MS = 4000;
const [LEFT, BOTTOM, HEIGHT] = [42, 16, 104];
const LEAST_WIDTH = 250;

const sum = (list) => list.reduce((a, b) => a + b, 0);

/** What is drawn: a name, lines over time, and how a value is read. */
function charts(it) {
  const points = it.series.points;
  const now = points.at(-1);
  const busy = (p) => sum(p.busy);
  const usable = (p) => sum(p.usable);
  const envies = (p) => p.worst_envy;
  return [
    { title: "GPUs in use", value: now && `${three(busy(now))} of ${three(usable(now))}`, show: three, floor: 0,
      lines: [{ name: "in use", hue: "active", of: busy, area: true }, { name: "usable", hue: "axis", of: usable }] },
    { title: "Jobs", value: now && `${three(now.running)} running, ${three(now.waiting)} waiting`, show: three, floor: 0,
      lines: [{ name: "running", hue: "e2", of: (p) => p.running, area: true }, { name: "waiting", hue: "e1", of: (p) => p.waiting }] },
    { title: "Power", value: now && watts(now.watts), show: watts, floor: 0,
      lines: [{ name: "all GPUs", hue: "e4", of: (p) => p.watts, area: true }] },
    { title: "Fairness", value: now?.worst_envy == null ? "no allocation" : `envy ${now.worst_envy.toFixed(2)}, sharing ${now.least_sharing.toFixed(2)}`,
      show: (v) => v.toFixed(2), level: 1,
      lines: [{ name: "strongest envy", hue: "e3", of: envies }, { name: "lowest sharing ratio", hue: "e0", of: (p) => p.least_sharing }] },
  ];
}

/** A round number at or above `v`. */
function roundUp(v) {
  const unit = 10 ** Math.floor(Math.log10(v));
  return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((m) => m * unit >= v * 0.9999);
}

/** The range of a chart: from 0, or around a level that matters. */
function range(chart, points) {
  const values = points.flatMap((p) => chart.lines.map((line) => line.of(p))).filter((v) => v != null && Number.isFinite(v));
  if (chart.floor === 0) return [0, roundUp(Math.max(1e-9, ...values))];
  const most = Math.min(3, Math.max(0.25, ...values.map((v) => Math.abs(v - chart.level))));
  return [Math.max(0, chart.level - roundUp(most)), chart.level + roundUp(most)];
}

/** Pieces of a line without gaps: lists of [x, y]. */
function pieces(points, of, x, y, gap) {
  const found = [];
  let last = -Infinity;
  for (const p of points) {
    const v = of(p);
    if (v == null || !Number.isFinite(v)) { last = -Infinity; continue; }
    if (p.at - last > gap) found.push([]);
    found.at(-1).push([x(p.at + p.seconds / 2), y(v)]);
    last = p.at;
  }
  return found;
}

const path = (dots) => dots.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function clock(t, length) {
  const text = absolute(t);
  return length > 172800 ? text.slice(5, 10) : text.slice(11, 16);
}

function draw(it, chart, width) {
  const { points, resolution_seconds: each } = it.series;
  const [from, to] = [it.to - it.length, it.to];
  const [low, high] = range(chart, points);
  const x = (t) => LEFT + ((Math.max(from, Math.min(to, t)) - from) / (to - from)) * (width - LEFT - 2);
  const y = (v) => 6 + (1 - (Math.max(low, Math.min(high, v)) - low) / (high - low)) * (HEIGHT - BOTTOM - 6);
  const ticks = chart.level == null ? [low, (low + high) / 2, high] : [low, chart.level, high];
  const lines = chart.lines.flatMap((line) => pieces(points, line.of, x, y, each * 1.6).flatMap((dots) => {
    const one = dots.length === 1 ? [dots[0], [dots[0][0] + 1.5, dots[0][1]]] : dots;
    const under = `${path(one)}L${one.at(-1)[0].toFixed(1)} ${y(low)}L${one[0][0].toFixed(1)} ${y(low)}Z`;
    return [line.area && s("path", { class: `${line.hue} under`, d: under }), s("path", { class: `${line.hue} line`, d: path(one) })];
  }));
  const hours = [0, 0.5, 1].map((part) => [from + part * (to - from), ["start", "middle", "end"][part * 2]]);
  const over = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const t = from + ((event.clientX - box.left - LEFT) / (width - LEFT - 2)) * (to - from);
    const near = points.reduce((best, p) => (best && Math.abs(best.at + each / 2 - t) <= Math.abs(p.at + each / 2 - t) ? best : p), null);
    if (!near || Math.abs(near.at + each / 2 - t) > each * 2) return showTip(null);
    showTip(event.clientX, event.clientY, h("b", null, absolute(near.at)), h("div", null, dim(`average of ${span(near.seconds)}`)),
      chart.lines.map((line) => h("div", null, entry(line.hue, `${line.name} `, line.of(near) == null ? "–" : chart.show(line.of(near))))));
  };
  return s("svg", { class: "chart", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", onpointermove: over, onpointerleave: () => showTip(null),
    "aria-label": `${chart.title} over the last ${span(it.length)}: ${chart.value ?? "nothing recorded"}` },
  ticks.map((v) => [s("line", { class: v === chart.level ? "level" : "grid", x1: LEFT, x2: width - 2, y1: y(v), y2: y(v) }),
    s("text", { x: LEFT - 5, y: y(v) + 4, "text-anchor": "end" }, short(chart, v))]),
  hours.map(([t, anchor]) => s("text", { x: x(t), y: HEIGHT - 3, "text-anchor": anchor }, clock(t, it.length))), lines);
}

/** A tick in few characters. */
function short(chart, v) {
  if (chart.title === "Power") return watts(v).replace(" ", "");
  return v >= 1e4 ? `${three(v / 1e3)}k` : three(v);
}

export function mountHistory(app) {
  const root = h("section", { class: "card past", testid: "history" });
  const it = { length: 21600, to: 0, series: null, at: -Infinity };
  const choose = ([name, length]) => h("button", { class: "chip", testid: "history-window", "aria-pressed": it.length === length,
    onclick: async () => { it.length = length; it.at = -Infinity; await refresh(); } }, name);

  function show() {
    if (!it.series) return;
    const inside = Math.max(LEAST_WIDTH, root.clientWidth - 34);
    const columns = Math.max(1, Math.min(4, Math.floor((inside + 22) / (LEAST_WIDTH + 22))));
    const width = Math.floor((inside - 22 * (columns - 1)) / columns);
    render(root, h("div", { class: "headline" }, h("h2", null, "Over time"), h("span", { class: "tools" }, WINDOWS.map(choose))),
      h("div", { class: "charts", style: { "grid-template-columns": `repeat(${columns}, minmax(0, 1fr))` } }, charts(it).map((chart) =>
        h("figure", { testid: "history-chart", "data-points": it.series.points.length },
          h("figcaption", null, h("b", null, chart.title), " ", dim(chart.value ?? "nothing recorded yet")), draw(it, chart, width),
          h("p", { class: "legend" }, chart.lines.map((line) => entry(line.hue, line.name)))))));
  }

  async function refresh() {
    if (performance.now() - it.at < EVERY_MS) return;
    it.at = performance.now();
    const to = app.server.now;
    const series = await get("series", { from: Math.max(0, to - it.length), to: to + 1, points: 240 });
    [it.series, it.to] = [series, to];
    show();
  }
  return { root, refresh, resize: show };
}
