// Which time is looked at. It stands in the address: `last=3600`, or `from` and `to` in seconds of the scheduler's clock.

import { absolute, dim, h, labelled } from "./base.js";

const SPANS = [["3600", "last hour"], ["21600", "last 6 hours"], ["86400", "last day"], ["604800", "last week"], ["all", "everything recorded"],
  ["own", "from … to …"]];

/** `{from, to}` as asked for; `null` for now. */
export function windowOf(app, fallback = null) {
  const last = app.params.get("last") ?? fallback;
  if (!last) return null;
  if (last === "all") return {};
  if (last === "own") return { from: app.params.get("from"), to: app.params.get("to") };
  return { from: Math.max(0, Math.floor(app.now() - Number(last))) };
}

const toField = (t) => absolute(t).slice(0, 16).replace(" ", "T");
const fromField = (text) => (text ? new Date(text).getTime() / 1000 : null);

/** The choice of a window; `present` names what is shown without one. */
export function picker(app, present, fallback = "") {
  const chosen = app.params.get("last") ?? fallback;
  const options = present ? [["", present], ...SPANS] : SPANS;
  const pick = (event) => {
    const last = event.target.value;
    app.set(last === "own" ? { last, from: Math.floor(app.now() - 86400), to: Math.floor(app.now()) } : { last: last || null, from: null, to: null });
  };
  const end = (name, label) => h("input", { type: "datetime-local", "aria-label": label,
    value: app.params.get(name) ? toField(Number(app.params.get(name))) : "",
    onchange: (event) => app.set({ [name]: fromField(event.target.value) }) });
  return h("div", { class: "tools" }, labelled("window", h("select", { testid: "window-select", onchange: pick, value: chosen },
    options.map(([value, text]) => h("option", { value }, text)))),
    chosen === "own" && [end("from", "From"), dim("to"), end("to", "To")]);
}
