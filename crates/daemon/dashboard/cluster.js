// What runs where: every GPU as a cell, grouped by kind and node; above it the figures of the whole cluster, now and over time.
//
// Cells lie on one canvas and the cursor on another above it, so that moving over 10,000 GPUs draws none of them anew.
// A node is a block of cells; blocks follow each other like words, with the largest cells that let the whole fit into the window.

import { all, get } from "./api.js";
import { mountHistory } from "./history.js";
import { count, dim, empty, entry, h, percent, piece, plural, render, showTip, speak, tile, watts } from "./base.js";

const SIZES = [60, 52, 44, 38, 34, 30, 26, 22, 18, 16, 14, 12, 11, 10, 9, 8, 7];
const LABELLED = 18; // cells of this size leave room for the names of nodes
const NUMBERED = 34; // and these for the number of the job
const EDGE = 2; // room for the cursor at the left
const HEAD = 264; // room for what is said of a kind
const [FREE, SHARED, AWAY] = [0, 2, 3]; // as /v1/gpus counts states; 1 is held by one job

/** Where blocks of nodes and heads of kinds go with cells of size `c`. Kinds stand side by side where they fit. */
function lay(groups, width, c) {
  const label = c >= LABELLED ? 15 : 0;
  const [blocks, heads] = [[], []];
  let [left, top, tallest, widest] = [EDGE, 0, 0, 0];
  for (const { kind, nodes } of groups) {
    let group = shelve(nodes, width - left, c, label);
    if (left > EDGE && (group.rows > 1 || left + Math.max(group.width, HEAD) > width)) {
      [left, top, tallest] = [EDGE, top + tallest + 14, 0];
      group = shelve(nodes, width - EDGE, c, label);
    }
    heads.push({ kind, x: left, y: top });
    for (const block of group.blocks) blocks.push({ ...block, x: block.x + left, y: block.y + top + 26 });
    tallest = Math.max(tallest, group.height + 26);
    widest = Math.max(widest, left + group.width);
    left += Math.max(group.width, HEAD) + 28;
  }
  return { blocks, heads, width: widest, height: top + tallest, c, label };
}

/** One kind's nodes in rows of this width. */
function shelve(nodes, width, c, label) {
  const gap = Math.max(3, Math.round(c * 0.4));
  const blocks = [];
  let [x, y, tall, rows, widest] = [0, 0, 0, 1, 0];
  for (const node of nodes) {
    const columns = node.gpus <= 4 ? node.gpus : node.gpus <= 16 ? Math.ceil(node.gpus / 2) : Math.min(16, Math.max(1, Math.floor(width / c)));
    const wide = Math.max(columns * c, label ? 62 : 0);
    if (x > 0 && x + wide > width) [x, y, tall, rows] = [0, y + tall + gap, 0, rows + 1];
    blocks.push({ node, x, y: y + label, columns });
    x += wide + gap;
    widest = Math.max(widest, x - gap);
    tall = Math.max(tall, Math.ceil(node.gpus / columns) * c + label);
  }
  return { blocks, rows, width: widest, height: y + tall };
}

/** The largest cells with which everything fits into the height, or else the smallest. */
function fit(groups, width, height) {
  for (const c of SIZES) {
    const plan = lay(groups, width, c);
    if (plan.height <= height && plan.width <= width) return plan;
  }
  return lay(groups, width, SIZES.at(-1));
}

function group(gpus, nodes) {
  const groups = gpus.kinds.map((kind) => ({ kind, nodes: [] }));
  const at = new Map(groups.map((g) => [g.kind, g]));
  for (const node of nodes) at.get(node.kind)?.nodes.push(node);
  return groups.filter((g) => g.nodes.length);
}

/** Colours of the sheet by name, as the paper of now has them: `rgb(r, g, b)`. */
function coloursOf(root) {
  const probe = root.appendChild(h("i", { hidden: true }));
  const seen = new Map();
  const colour = (name) => {
    if (!seen.has(name)) { probe.style.color = `var(--${name})`; seen.set(name, getComputedStyle(probe).color); }
    return seen.get(name);
  };
  return [colour, () => probe.remove()];
}

const channels = (colour) => colour.match(/\d+/g).map(Number);

function hatch(pen, colour) {
  const tile = new OffscreenCanvas(6, 6);
  const t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.lineWidth = 1.2;
  t.beginPath();
  for (const o of [-6, 0, 6]) { t.moveTo(o - 1, 7); t.lineTo(o + 7, -1); }
  t.stroke();
  return pen.createPattern(tile, "repeat");
}

const mix = (a, b, part) => `rgb(${channels(a).map((v, i) => Math.round(v * (1 - part) + channels(b)[i] * part)).join(", ")})`;

/** Whether white is better read on a colour than black: by its relative luminance, against where both contrasts are equal. */
function isDark(colour) {
  const [r, g, b] = channels(colour).map((v) => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.198;
}

export function mount(root, app) {
  const tiles = h("div", { class: "tiles" });
  const bar = h("div", { class: "tools" });
  const canvas = h("canvas", { class: "cells", "aria-hidden": "true" });
  const above = h("canvas", { class: "above", "aria-hidden": "true" });
  const map = h("div", { class: "map", tabindex: 0, role: "application", "aria-label": "GPUs; move with the arrow keys, Enter opens the job",
    testid: "gpu-map" }, canvas, above);
  const detail = h("p", { class: "detail", testid: "gpu-detail" });
  const sheet = h("section", { class: "card" }, bar, map, detail);
  const past = mountHistory(app);
  root.append(tiles, past.root, sheet);
  const it = { app, map, canvas, above, bar, detail, plan: null, gpus: null, nodes: [], cursor: -1, by: "tenant", only: null, known: new Map() };

  map.onpointermove = (event) => {
    const box = map.getBoundingClientRect();
    const gpu = gpuAt(it, event.clientX - box.left, event.clientY - box.top);
    map.classList.toggle("over", gpu >= 0 && it.gpus.job[gpu] > 0);
    if (gpu !== it.hover) { it.hover = gpu; drawCursor(it); }
    if (gpu < 0) showTip(null); else { showTip(event.clientX, event.clientY, describe(it, gpu)); learn(it, gpu, event.clientX, event.clientY); }
  };
  map.onpointerleave = () => { it.hover = -1; showTip(null); drawCursor(it); };
  map.onclick = () => { if (it.hover >= 0) { it.cursor = it.hover; openJob(it, it.hover); } };
  map.onkeydown = (event) => moveCursor(it, event);
  map.onfocus = () => { if (it.cursor < 0 && it.plan && map.matches(":focus-visible")) setCursor(it, it.plan.blocks[0]?.node.first_gpu ?? -1); };
  map.onblur = () => drawCursor(it);

  return {
    refresh: async () => {
      const nodesWanted = !it.nodes.length || app.nodesStale;
      const [gpus, kinds, jobs, nodes] = await Promise.all([get("gpus"), get("kinds"), get("jobs", { limit: 1 }),
        nodesWanted ? all("nodes", "nodes", 20_000) : null, past.refresh()]);
      if (!map.isConnected) return; // another view was opened meanwhile
      if (nodes) { it.nodes = nodes.items; app.nodesStale = false; it.plan = null; }
      [it.gpus, it.kinds] = [gpus, kinds.kinds];
      render(tiles, drawTiles(app, kinds.kinds, jobs));
      drawTools(it);
      draw(it);
    },
    resize: () => { past.resize(); it.plan = null; if (it.gpus) { drawTools(it); draw(it); } },
    close: () => showTip(null),
  };
}

// The figures.

function drawTiles(app, kinds, jobs) {
  const sum = (field) => kinds.reduce((total, kind) => total + kind[field], 0);
  const live = Object.fromEntries(jobs.live.map(({ state, jobs: n }) => [state, n]));
  const [gpus, busy, away, shared] = ["gpus", "busy", "away", "shared"].map(sum);
  const running = (live.running ?? 0) + (live.starting ?? 0) + (live.stopping ?? 0);
  return [
    tile("GPUs in use", [count(busy), h("small", null, ` of ${count(gpus)}`)], [percent(gpus ? busy / gpus : 0, 0),
      shared > 0 && ` · ${count(shared)} shared`, away > 0 && h("span", { class: "wrong" }, ` · ${count(away)} away`)], { testid: "tile-gpus" }),
    tile("Power", watts(sum("watts")), `of ${watts(kinds.reduce((p, k) => p + k.gpus * k.peak_watts, 0))} peak`, { testid: "tile-watts" }),
    tile("Live jobs", count(app.server.live_jobs), `${count(running)} hold GPUs`, { testid: "tile-jobs" }),
    tile("Waiting", count(live.waiting ?? 0), live.waiting > 0 && h("a", { href: "#/queue" }, "why"), { testid: "tile-waiting" }),
    h("section", { class: "card tile kinds" }, h("h2", null, "In use by kind"), h("div", { class: "kindbars" }, kinds.map((k) => [
      h("span", null, k.name),
      h("div", { class: "bar", title: `${count(k.busy)} of ${count(k.gpus)} held, ${count(k.shared)} shared, ${count(k.away)} away; ${watts(k.watts)}` },
        piece("active", k.busy / k.gpus), piece("gone", k.away / k.gpus)),
      h("span", { class: "n" }, `${count(k.busy)}/${count(k.gpus)}`)]))),
  ];
}

function drawTools(it) {
  const { app, gpus } = it;
  const choose = (by) => h("button", { class: "chip", testid: "colour-by", "data-by": by, "aria-pressed": it.by === by,
    onclick: () => { it.by = by; it.only = null; drawTools(it); draw(it); } }, by);
  render(it.bar, dim("colour by"), ["tenant", "kind", "power"].map(choose), h("span", { class: "legend" }, legend(it)));

  function legend() {
    if (it.by === "power") return [dim("idle"), h("i", { class: "ramp" }), dim("peak of the kind"), marks()];
    if (it.by === "kind") return [gpus.kinds.map((kind, i) => entry(i < 10 ? `e${i}` : "others", kind)), marks()];
    const held = new Map();
    for (const t of gpus.tenant) if (t >= 0) held.set(t, (held.get(t) ?? 0) + 1);
    const list = [...held].sort((a, b) => b[1] - a[1]);
    const named = list.filter(([t]) => app.hueOf(gpus.tenants[t]) !== "others").slice(0, 10);
    const rest = list.length - named.length;
    return [named.map(([t, n]) => h("button", { class: "chip quiet", "aria-pressed": it.only === gpus.tenants[t], title: "show only this tenant",
      onclick: () => { it.only = it.only === gpus.tenants[t] ? null : gpus.tenants[t]; drawTools(it); draw(it); } }, app.mark(gpus.tenants[t]),
        dim(` ${count(n)}`))),
    rest > 0 && entry("others", plural(rest, "other")), marks()];
  }
  function marks() {
    return [entry("free", "free"), entry("away", "unavailable"), gpus.state.includes(SHARED) && entry("pair", "shared by two jobs")];
  }
}

// The cells.

function hueOfGpu(it, gpu, colour) {
  const { gpus, app } = it;
  if (gpus.state[gpu] === FREE && it.by !== "power") return colour("unused");
  const name = gpus.tenants[gpus.tenant[gpu]];
  if (it.only && name !== it.only) return colour("unused");
  if (it.by === "tenant") return colour(name == null ? "idle" : app.hueOf(name));
  if (it.by === "kind") return gpus.kind[gpu] < 10 ? colour(`e${gpus.kind[gpu]}`) : colour("others");
  const kind = it.kindOf.get(gpus.kinds[gpus.kind[gpu]]);
  const part = kind ? (gpus.watts[gpu] - kind.idle_watts) / Math.max(1, kind.peak_watts - kind.idle_watts) : 0;
  return it.ramp[Math.round(Math.max(0, Math.min(1, part)) * 16)];
}

function draw(it) {
  const { map, canvas, gpus } = it;
  const width = map.clientWidth;
  if (!gpus.kind.length) { render(it.detail, empty("The cluster has no GPUs. Configure its nodes with “arles serve --cluster”.")); return; }
  if (!it.plan || it.width !== width) {
    it.width = width;
    it.plan = fit(group(gpus, it.nodes), width, Math.max(300, innerHeight - 570));
    size(it, width);
  }
  const [colour, done] = coloursOf(map);
  it.kindOf = new Map(it.kinds.map((k) => [k.name, k]));
  it.ramp = Array.from({ length: 17 }, (_, i) => (i < 8 ? mix(colour("unused"), colour("active"), i / 8) : mix(colour("active"), colour("lost"), i / 8 - 1)));
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, it.plan.height);
  const [buckets, pairs, away] = [new Map(), [], []];
  const edge = it.plan.c >= 12 ? 2 : 1;
  forCells(it.plan, (gpu, x, y) => {
    if (gpus.state[gpu] === AWAY) { away.push([x, y]); return; }
    const hue = hueOfGpu(it, gpu, colour);
    if (gpus.state[gpu] === SHARED) pairs.push([x, y]);
    const bucket = buckets.get(hue);
    if (bucket) bucket.push(x, y); else buckets.set(hue, [x, y]);
  });
  const side = it.plan.c - edge;
  for (const [hue, at] of buckets) {
    pen.fillStyle = hue;
    for (let i = 0; i < at.length; i += 2) pen.fillRect(at[i], at[i + 1], side, side);
  }
  drawPairs(pen, pairs, side, colour("card"));
  drawAway(pen, away, side, colour("axis"));
  drawWords(pen, it, colour);
  if (it.plan.c >= NUMBERED) drawNumbers(pen, it, side, colour);
  drawCursor(it);
  done();
}

function size(it, width) {
  const scale = devicePixelRatio || 1;
  for (const c of [it.canvas, it.above]) {
    [c.width, c.height] = [Math.round(width * scale), Math.round(it.plan.height * scale)];
    [c.style.width, c.style.height] = [`${width}px`, `${it.plan.height}px`];
    c.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }
  it.map.style.height = `${it.plan.height}px`;
}

function forCells(plan, visit) {
  for (const { node, x, y, columns } of plan.blocks)
    for (let i = 0; i < node.gpus; i++) visit(node.first_gpu + i, x + (i % columns) * plan.c, y + Math.floor(i / columns) * plan.c);
}

/** Two jobs: the cell is cut from corner to corner and the second half lightened. */
function drawPairs(pen, cells, side, paper) {
  pen.fillStyle = paper;
  pen.globalAlpha = 0.5;
  pen.beginPath();
  for (const [x, y] of cells) { pen.moveTo(x + side, y); pen.lineTo(x + side, y + side); pen.lineTo(x, y + side); }
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = paper;
  pen.lineWidth = side > 12 ? 1.5 : 0.8;
  pen.beginPath();
  for (const [x, y] of cells) { pen.moveTo(x + side, y); pen.lineTo(x, y + side); }
  pen.stroke();
}

function drawAway(pen, cells, side, colour) {
  pen.fillStyle = hatch(pen, colour);
  for (const [x, y] of cells) pen.fillRect(x, y, side, side);
}

/** Numbers of jobs, and watts in the largest cells; dark or light as the cell asks for. */
function drawNumbers(pen, it, side, colour) {
  pen.font = `${side > 48 ? 12 : 11}px system-ui, sans-serif`;
  const { gpus, plan } = it;
  forCells(plan, (gpu, x, y) => {
    if (gpus.state[gpu] === AWAY) return;
    pen.fillStyle = isDark(hueOfGpu(it, gpu, colour)) ? "#ffffff" : "#14171a";
    if (gpus.job[gpu] > 0) pen.fillText(gpus.job[gpu], x + 4, y + 14, side - 6);
    if (gpus.state[gpu] !== SHARED) { if (side > 48) pen.fillText(watts(gpus.watts[gpu]), x + 4, y + side - 5, side - 6); return; }
    pen.fillStyle = colour("ink");
    pen.textAlign = "right";
    if (gpus.partner[gpu] > 0) pen.fillText(gpus.partner[gpu], x + side - 4, y + side - 5, side - 6);
    pen.textAlign = "left";
  });
}

function drawWords(pen, it, colour) {
  const { plan, gpus } = it;
  pen.textBaseline = "alphabetic";
  for (const { kind, x, y } of plan.heads) {
    const k = it.kindOf.get(kind);
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillStyle = colour("ink");
    pen.fillText(kind, x, y + 16);
    const wide = pen.measureText(kind).width;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = colour("dim");
    if (k) pen.fillText(`${count(k.busy)} of ${count(k.gpus)} held · ${watts(k.watts)} · ${Math.round(k.memory_gib)} GiB`, x + wide + 10, y + 16);
  }
  if (!plan.label) return;
  pen.font = "11px system-ui, sans-serif";
  for (const { node, x, y, columns } of plan.blocks) {
    const room = Math.max(columns * plan.c, 62);
    let name = node.name;
    while (name.length > 3 && pen.measureText(name).width > room) name = name.slice(0, -2) + "…";
    pen.fillStyle = gpus.state[node.first_gpu] === AWAY ? colour("lost") : colour("dim");
    pen.fillText(name, x, y - 4);
  }
}

// The cursor.

function cellOf(plan, gpu) {
  for (const { node, x, y, columns } of plan.blocks) {
    const i = gpu - node.first_gpu;
    if (i >= 0 && i < node.gpus) return [x + (i % columns) * plan.c, y + Math.floor(i / columns) * plan.c];
  }
  return null;
}

function gpuAt(it, px, py) {
  const { plan } = it;
  if (!plan) return -1;
  for (const { node, x, y, columns } of plan.blocks) {
    const [i, j] = [Math.floor((px - x) / plan.c), Math.floor((py - y) / plan.c)];
    if (i >= 0 && i < columns && j >= 0 && j * columns + i < node.gpus) return node.first_gpu + j * columns + i;
  }
  return -1;
}

function drawCursor(it) {
  if (!it.plan) return;
  const pen = it.above.getContext("2d");
  const ink = getComputedStyle(it.map).color;
  for (const cell of it.drawnCursors ?? []) pen.clearRect(cell[0] - 4, cell[1] - 4, it.plan.c + 8, it.plan.c + 8);
  it.drawnCursors = [];
  const mates = it.hover >= 0 && it.gpus.job[it.hover] > 0 ? gangOf(it, it.hover) : [];
  pen.strokeStyle = ink;
  for (const gpu of [...mates, it.hover, document.activeElement === it.map ? it.cursor : -1]) {
    const cell = gpu >= 0 && cellOf(it.plan, gpu);
    if (!cell) continue;
    pen.lineWidth = gpu === it.hover || gpu === it.cursor ? 2 : 1.2;
    pen.strokeRect(cell[0] - 1, cell[1] - 1, it.plan.c, it.plan.c);
    it.drawnCursors.push(cell);
  }
}

/** GPUs of the same job: a gang lies on one kind, so a look over the column is enough. */
function gangOf({ gpus }, gpu) {
  const [job, found] = [gpus.job[gpu], []];
  for (let i = 0; i < gpus.job.length && found.length < 256; i++) if (gpus.job[i] === job && i !== gpu) found.push(i);
  return found;
}

function setCursor(it, gpu) {
  if (gpu < 0) return;
  it.cursor = gpu;
  drawCursor(it);
  const cell = cellOf(it.plan, gpu);
  const top = it.map.getBoundingClientRect().top + cell[1];
  if (top < 120) scrollBy(0, top - 140); else if (top > innerHeight - 60) scrollBy(0, top - innerHeight + 80);
  const said = words(it, gpu).join(", ");
  it.detail.textContent = said;
  speak(said);
}

function moveCursor(it, event) {
  if (event.key === "Enter" && it.cursor >= 0) return openJob(it, it.cursor);
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !it.plan) return;
  event.preventDefault();
  if (it.cursor < 0) return setCursor(it, it.plan.blocks[0].node.first_gpu);
  const [x, y] = cellOf(it.plan, it.cursor);
  // The nearest cell in that direction; sideways distance counts more, so that the cursor keeps its row or column.
  let [best, least] = [-1, Infinity];
  forCells(it.plan, (gpu, cx, cy) => {
    const [along, across] = step[0] ? [(cx - x) * step[0], Math.abs(cy - y)] : [(cy - y) * step[1], Math.abs(cx - x)];
    if (along > 0 && along + across * 4 < least) [best, least] = [gpu, along + across * 4];
  });
  setCursor(it, best);
}

function openJob(it, gpu) {
  if (it.gpus.job[gpu] > 0) it.app.go({ job: it.gpus.job[gpu] });
}

function words(it, gpu) {
  const { gpus, app } = it;
  const node = it.nodes.find((n) => gpu >= n.first_gpu && gpu < n.first_gpu + n.gpus);
  const [state, job, partner] = [gpus.state[gpu], gpus.job[gpu], gpus.partner[gpu]];
  const workload = it.known.get(job);
  const held = state === FREE ? "free" : state === AWAY ? `node ${node?.state && node.state !== "up" ? node.state : "unavailable"}`
    : job > 0 ? `job ${job}${workload ? ` (${workload})` : ""}` : "used by another tenant";
  return [`GPU ${gpu}`, gpus.kinds[gpus.kind[gpu]], node?.name, held, gpus.tenants[gpus.tenant[gpu]],
    state === SHARED && (partner > 0 ? `shared with job ${partner}` : "shared"), watts(gpus.watts[gpu])].filter(Boolean);
}

function describe(it, gpu) {
  const [name, kind, ...rest] = words(it, gpu);
  return [h("b", null, `${name} · ${kind}`), rest.map((text) => h("div", null, text))];
}

/** Looks up what the job under a resting pointer runs. */
function learn(it, gpu, x, y) {
  clearTimeout(it.rest);
  const job = it.gpus.job[gpu];
  if (!job || it.known.has(job)) return;
  it.rest = setTimeout(async () => {
    const known = await get(`jobs/${job}`).catch(() => null);
    if (!known) return;
    if (it.known.size > 500) it.known.clear();
    it.known.set(job, known.workload);
    if (it.hover === gpu) showTip(x, y, describe(it, gpu));
  }, 250);
}
