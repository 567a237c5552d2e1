// Elements, numbers and times: what every view is built from.
//
// A view describes itself as a tree made with `h` and hands it to `render`, which changes only what differs, so that focus,
// selection and scrolling survive a refresh every second. Text from the API becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "required"]);
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave"];

// What a reader would not see for what it is: controls, marks of direction, characters without width. Names that hold them are refused
// today (core/src/name.rs has the list), but older journals may hold some.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
/** A text as it may be shown; line breaks and tabs are ours. */
const seen = (text) => (typeof text === "string" ? text.replace(HIDDEN, (c) => (c === "\n" || c === "\t" ? c : "\ufffd")) : text);

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value == null || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "style") for (const [rule, worth] of Object.entries(value)) element.style.setProperty(rule, worth);
    else if (name.startsWith("on") || PROPERTIES.has(name)) element[name] = value;
    else if (name.startsWith("aria-")) element.setAttribute(name, seen(String(value)));
    else if (name === "testid") element.setAttribute("data-testid", value);
    else if (name === "title") element.setAttribute(name, seen(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child != null && child !== false) element.append(seen(child));
  return element;
}

/** An HTML element. */
export const h = (tag, properties, ...children) => {
  if (tag === "button") properties = { type: "button", ...properties };
  const element = build(document.createElement(tag), tag === "select" ? null : properties, children);
  return tag === "select" ? build(element, properties, []) : element; // its value needs its options first
};

/** An SVG element. */
export const s = (tag, properties, ...children) => build(document.createElementNS(SVG, tag), properties, children);

const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const mate = keyed.get(keyOf(child));
    if (mate && mate !== at) old.insertBefore(mate, at);
    else if (at && !mate && keyOf(at) !== keyOf(child)) { old.insertBefore(child, at); continue; }
    const target = mate ?? at;
    if (target === at) at = at?.nextSibling ?? null;
    if (target) morph(target, child);
    else old.append(child);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType !== 1) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  if (fresh.hasAttribute("data-keep") && old.hasAttribute("data-keep")) return;
  for (const { name, value } of fresh.attributes)
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!/^(style|open)$/.test(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
  morphChildren(old, fresh);
  if ("value" in old && old !== document.activeElement && old.value !== fresh.value) old.value = fresh.value;
  if ("checked" in old && old.checked !== fresh.checked) old.checked = fresh.checked;
  if ("disabled" in old && old.disabled !== fresh.disabled) old.disabled = fresh.disabled;
}

/** Makes the children of `root` these, touching only what differs. */
export function render(root, ...children) {
  const fresh = document.createElement(root.nodeName);
  build(fresh, null, children);
  morphChildren(root, fresh);
}

// Numbers: three digits, a unit that fits, a narrow vocabulary.

export const count = (v) => (v == null ? "–" : Math.round(v).toLocaleString("en"));
const digits = (v) => {
  if (v < 0) return `−${digits(-v)}`;
  const size = v;
  if (size !== 0 && (size < 0.01 || size >= 1e7)) return v.toExponential(1).replace("e+", "e");
  return size < 10 ? String(+v.toFixed(2)) : size < 100 ? String(+v.toFixed(1)) : Math.round(v).toLocaleString("en");
};
const scaled = (v, units) => {
  if (v == null || !Number.isFinite(v)) return "–";
  const [name, unit] = units.findLast(([, , from]) => Math.abs(v) >= from) ?? units[0];
  return `${digits(v / unit)} ${name}`;
};
export const three = (v) => (v == null || !Number.isFinite(v) ? "–" : digits(v));
export const watts = (v) => scaled(v, [["W", 1, 0], ["kW", 1e3, 1e3], ["MW", 1e6, 1e6]]);
export function span(v) {
  if (v == null || !Number.isFinite(v)) return "–";
  if (v < 90) return v < 1 ? `${digits(v * 1000)} ms` : `${digits(v < 10 ? v : Math.round(v))} s`;
  return v < 5400 ? `${Math.round(v / 60)} min` : v < 172800 ? `${(v / 3600).toFixed(1)} h` : `${(v / 86400).toFixed(1)} d`;
}
export const energy = (j) => scaled(j, [["Wh", 3600, 0], ["kWh", 3.6e6, 3.6e6], ["MWh", 3.6e9, 3.6e9]]);
export const kwh = (j) => j == null ? "–" : (j / 3.6e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
export const percent = (v, places = 1) => (v == null || !Number.isFinite(v) ? "–" : `${(v * 100).toFixed(places)} %`);
export const rate = (v) => (v == null ? "–" : `${digits(v)} /s`);
export const plural = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

const two = (n) => String(n).padStart(2, "0");
/** A moment of the scheduler's clock in this browser's time zone. */
export const absolute = (t) => {
  const d = new Date(t * 1000);
  return Number.isNaN(d.getTime()) ? "–"
    : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
};
/** A moment relative to `now`; absolute on hover. */
export function when(t, now) {
  if (t == null) return dim("–");
  const ago = now - t;
  const text = Math.abs(ago) < 1 ? "now" : ago > 0 ? `${span(Math.round(ago))} ago` : `in ${span(Math.round(-ago))}`;
  return h("time", { title: absolute(t) }, text);
}

/** The mark of a tenant or kind. */
export const key = (hue) => h("i", { class: `key ${hue}`, "aria-hidden": "true" });

/** A piece of a bar, as long as `ratio` of its track. */
export const piece = (hue, ratio, title) => ratio > 0 && h("i", { class: hue, title, style: { width: `${Math.min(100, ratio * 100).toFixed(2)}%` } });

/** An entry of a legend. */
export const entry = (hue, ...text) => h("span", null, key(hue), text);

/** Words of less weight. */
export const dim = (...children) => h("span", { class: "dim" }, children);

/** A control with its name before it. */
export const labelled = (name, control) => h("label", null, dim(name), control);

/** A line of a list of facts. */
export const fact = (name, ...value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** A cell that holds a number. */
export const num = (...children) => h("td", { class: "n" }, children);

/** A figure with its name above and a remark below. */
export const tile = (title, value, rest, more) => h("section", { class: "card tile", ...more },
  h("h2", null, title), h("p", { class: "value" }, value), h("p", { class: "rest" }, rest));

/** A card with a heading. */
export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", null, title), children);

/** The head of a table; numbers' columns begin with `#`, what narrow screens leave out with `~`. */
export const heads = (names) => h("thead", null, h("tr", null, names.map((name) =>
  h("th", { scope: "col", class: (name.includes("#") ? "n " : "") + (name.includes("~") ? "less" : "") }, name.replace(/[#~]/g, "")))));

/** A table; `rows` are arrays of cells or whole rows. */
export function table(label, names, rows, foot) {
  const cell = (it, i) => (/^T[DH]$/.test(it?.nodeName) ? it : h("td", { class: names[i].startsWith("#") && "n" }, it));
  const line = (cells) => (cells instanceof Element ? cells : h("tr", null, cells.map(cell)));
  return h("div", { class: "scroll" }, h("table", { "aria-label": label }, heads(names), h("tbody", null, rows.map(line)),
    foot && h("tfoot", null, line(foot))));
}

/** What to say where there is nothing. */
export const empty = (text) => h("p", { class: "empty" }, text);

const STATES = { waiting: "p3", starting: "p5", running: "p2", stopping: "p4", completed: "dim", failed: "lost", cancelled: "dim" };
/** A job's state. */
export const state = (name) => h("span", { class: `state ${STATES[name] ?? "dim"}` }, name);

const tip = document.getElementById("tip");
/** Shows what is under the pointer; `null` hides it. */
export function showTip(x, y, ...children) {
  tip.hidden = x == null;
  if (x == null) return;
  render(tip, ...children);
  const [w, t] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 14 + w > innerWidth ? x - 10 - w : x + 14;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, Math.min(y + 12, innerHeight - t - 4))}px)`;
}

/** Says something to those who listen instead of looking. */
export const speak = (text) => { document.getElementById("spoken").textContent = text; };

/** A modal dialog; resolves to what its form was closed with (`""` by Escape). */
export function dialog(title, body, buttons, options = {}) {
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), body,
      h("div", { class: "buttons" }, buttons.map(([value, text, kind, testid]) =>
        h("button", { type: "submit", value, class: kind, testid, formnovalidate: value === "" }, text))));
    const box = h("dialog", { "aria-labelledby": "dialog-title", class: options.class }, form);
    box.onclose = () => { box.remove(); resolve(box.returnValue); };
    document.body.append(box);
    box.showModal();
  });
}
