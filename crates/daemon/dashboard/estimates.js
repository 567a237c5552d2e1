// How well the scheduler knows speeds: estimated against measured rates, before and after measuring.
//
// An error is |estimated / measured − 1|. Both axes are logarithmic with one scale, so that the diagonal is truth and a distance from it a factor.

import { all } from "./api.js";
import { card, count, dim, empty, entry, h, labelled, num, percent, plural, rate, render, s, showTip, table, three, tile } from "./base.js";

const MOST = 5000; // cells read
const WORST = 25;
const [SIDE, LEFT, FOOT] = [420, 58, 40];

export function mount(root, app) {
  let at = -1e9;
  return {
    refresh: async () => { // a large table that changes slowly: not more than twice a minute, unless the choice changed
      const workload = app.params.get("workload");
      if (performance.now() - at < 30_000 && root.dataset.workload === String(workload)) return;
      const { items, whole } = await all("estimates", "estimates", MOST, { workload });
      [at, root.dataset.workload] = [performance.now(), String(workload)];
      render(root, draw(app, items, whole));
    },
    close: () => showTip(null),
  };
}

const off = (estimate, measured) => Math.abs(estimate / measured - 1);
const now = (cell) => off(cell.rate, cell.measured_rate);
const quantile = (values, q) => (values.length ? [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] : null);

function draw(app, cells, whole) {
  const measured = cells.filter((c) => c.measured_rate > 0 && c.rate > 0);
  const first = measured.filter((c) => c.first_rate > 0);
  const before = first.map((c) => off(c.first_rate, c.measured_rate));
  const after = measured.map(now);
  const set = (event) => app.set({ workload: event.target.value.trim() || null });
  const line = (c) => h("tr", { testid: "estimate-row", title: `${c.source}, measured ${c.measurements} times` },
    h("td", { class: "clip" }, c.workload, c.partner && dim(` beside ${c.partner}`)), h("td", null, c.kind), num(c.gang),
    num(three(c.measured_rate)), num(three(c.rate)), num(dim(three(c.first_rate))), h("td", { class: now(c) > 0.2 ? "n wrong" : "n" }, percent(now(c))));
  return [
    h("div", { class: "headline" }, h("h1", null, "Estimates ", h("small", null, `by ${app.server.estimator}`)),
      h("div", { class: "tools" }, labelled("workload",
        h("input", { list: "names", placeholder: "any", maxlength: 200, value: app.params.get("workload") ?? "", onchange: set })))),
    !measured.length ? empty(cells.length
      ? `${plural(cells.length, "rate")} estimated, none measured yet. They are compared once jobs have run for a while.`
      : "No estimates yet. They come with the first jobs.") : [
      h("div", { class: "tiles" },
        tile("Cells measured", count(measured.length), `of ${count(cells.length)}${whole ? "" : " read"}: workload, gang, partner, kind`),
        tile("Median error before measuring", percent(quantile(before, 0.5)), `90 % below ${percent(quantile(before, 0.9))}`),
        tile("Median error now", percent(quantile(after, 0.5)), `90 % below ${percent(quantile(after, 0.9))}`)),
      h("div", { class: "columns" },
        card("Estimated against measured", plot(measured)),
        card("Largest errors, steps per second", table("Largest errors", ["workload", "kind", "#GPUs", "#measured", "#now", "#first", "#error"],
          [...measured].sort((a, b) => now(b) - now(a)).slice(0, WORST).map(line))))],
  ];
}

function plot(cells) {
  const values = cells.flatMap((c) => [c.measured_rate, c.rate, c.first_rate > 0 ? c.first_rate : c.rate]);
  const low = Math.floor(Math.log10(values.reduce((a, b) => Math.min(a, b))) * 2) / 2;
  const high = Math.max(low + 0.5, Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b))) * 2) / 2);
  const scale = (v) => ((Math.log10(v) - low) / (high - low)) * SIDE;
  const [x, y] = [(v) => LEFT + scale(v), (v) => SIDE + 8 - scale(v)];
  const ticks = [];
  for (let e = Math.ceil(low); e <= high; e++) ticks.push(10 ** e);
  const dots = (of, pick) => of.map((c) => `M${x(c.measured_rate).toFixed(1)} ${y(c[pick]).toFixed(1)}h0`).join("");
  const text = (v) => (v >= 1e4 || v < 1e-3 ? v.toExponential(0).replace("e+", "e") : String(+v.toPrecision(1)));
  const figure = s("svg", { viewBox: `0 0 ${LEFT + SIDE + 14} ${SIDE + FOOT + 8}`, class: "plot", role: "img", testid: "estimate-plot",
    "aria-label": `Estimated against measured rates of ${cells.length} cells, both logarithmic; the table lists the largest errors` },
    ticks.map((v) => [s("path", { class: "gridline", d: `M${x(v)} 8V${SIDE + 8}M${LEFT} ${y(v)}H${LEFT + SIDE}` }),
      s("text", { x: x(v), y: SIDE + 24, "text-anchor": "middle" }, text(v)), s("text", { x: LEFT - 8, y: y(v) + 4, "text-anchor": "end" }, text(v))]),
    s("path", { class: "diagonal", d: `M${LEFT} ${SIDE + 8}L${LEFT + SIDE} 8` }),
    s("path", { class: "axisline", d: `M${LEFT} 8V${SIDE + 8}H${LEFT + SIDE}` }),
    cells.filter((c) => c.first_rate > 0).slice(0, 3000).map((c) =>
      s("circle", { class: "ring", cx: x(c.measured_rate).toFixed(1), cy: y(c.first_rate).toFixed(1), r: 3.2 })),
    s("path", { class: "dots", d: dots(cells, "rate") }),
    s("text", { x: LEFT + SIDE / 2, y: SIDE + 44, "text-anchor": "middle" }, "measured, steps per second"),
    s("text", { x: 12, y: 8 + SIDE / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${8 + SIDE / 2})` }, "estimated"));
  figure.onpointermove = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(event.currentTarget.getScreenCTM().inverse());
    let [near, least] = [null, 100];
    for (const c of cells) for (const pick of ["rate", "first_rate"]) {
      const far = c[pick] > 0 ? (x(c.measured_rate) - at.x) ** 2 + (y(c[pick]) - at.y) ** 2 : 1e9;
      if (far < least) [near, least] = [c, far];
    }
    if (!near) { showTip(null); return; }
    showTip(event.clientX, event.clientY, h("b", null, `${near.workload} on ${near.gang} × ${near.kind}`),
      near.partner && h("div", null, `beside ${near.partner}`),
      [["measured", near.measured_rate], ["estimated now", near.rate], ["first estimate", near.first_rate]]
        .map(([what, v]) => h("div", null, `${what}: ${rate(v)}`)),
      h("div", null, `${near.source}, measured ${near.measurements} times`));
  };
  figure.onpointerleave = () => showTip(null);
  return [h("p", { class: "legend" }, entry("round active", "now"), entry("ringed", "before the first measurement"), dim("on the line: exact")), figure];
}
