// The form for a new job, with a rehearsal: the scheduler plays the coming rounds with the job in and says when and where it would run.
//
// A submission carries a key of its own, kept until it has succeeded, so that pressing twice or losing the answer makes one job.

import { call, freshKey, get } from "./api.js";
import { h, plural, rate, render, when } from "./base.js";

let open = false;

/** Opens the form; does nothing if it is open. */
export async function openSubmit(app) {
  if (open) return;
  open = true;
  const kinds = app.kinds ?? (await app.attempt(() => get("kinds")))?.kinds ?? [];
  app.kinds = kinds;
  const own = app.server.scope === "tenant";
  const field = (label, input, hint) => h("label", { class: "field" }, h("span", null, label), input, hint && h("small", null, hint));
  const text = (name, more) => h("input", { name, testid: `field-${name}`, autocomplete: "off", maxlength: 200, ...more });
  const number = (name, more) => h("input", { name, type: "number", step: "any", inputmode: "decimal", testid: `field-${name}`, ...more });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite", testid: "dry-run-result" });
  const form = h("form", { testid: "submit-form", autocomplete: "off" },
    h("h2", { id: "submit-title" }, "Submit a job"),
    h("div", { class: "fields" },
      field("workload", text("workload", { required: true, list: "submit-workloads", autofocus: true }), "any name that “arles workloads” lists"),
      h("datalist", { id: "submit-workloads" }, (app.workloads ?? []).map((value) => h("option", { value }))),
      field("tenant", own ? text("tenant", { value: app.server.tenant, disabled: true }) : text("tenant", { required: true, list: "submit-tenants" })),
      h("datalist", { id: "submit-tenants" }, app.tenants.map((t) => h("option", { value: t.name }))),
      field("name", text("name"), "optional"),
      field("GPUs (gang)", number("gang", { min: 1, max: 1000000, step: 1, value: 1, required: true })),
      field("steps", number("steps", { min: 0.001, max: 1e15 }), "of training, or"),
      field("period, seconds", number("period", { min: 0.001, max: 1e9 }), "of service"),
      field("guaranteed rate, steps/s", number("floor", { min: 1e-9, max: 1e12 }), "optional"),
      field("weight", number("weight", { min: 1e-6, max: 1e6, value: 1 }), "among the tenant's jobs")),
    h("fieldset", { testid: "field-kinds" }, h("legend", null, "GPU kinds; none selected means any"),
      kinds.map((k) => h("label", { class: "tick" }, h("input", { type: "checkbox", name: "kinds", value: k.name }), k.name))),
    result,
    h("div", { class: "buttons" }, h("button", { value: "close" }, "Close"),
      h("button", { testid: "dry-run-button", value: "try" }, "When would it run?"),
      h("button", { type: "submit", class: "primary", testid: "submit-button" }, "Submit")));
  const box = h("dialog", { "aria-labelledby": "submit-title", class: "broad" }, form);
  box.onclose = () => { open = false; box.remove(); };
  wire(app, box, form, result);
  document.body.append(box);
  box.showModal();
}

function wire(app, box, form, result) {
  let key = freshKey();
  const refuse = (message, hint) => render(result, h("p", { class: "wrong" }, message), hint && h("p", { class: "dim" }, hint));
  const ask = async (work) => {
    if (!form.reportValidity()) return;
    const job = requestOf(form);
    if ((job.steps == null) === (job.period_seconds == null)) { refuse("a job has either steps or a period of service",
      "fill in exactly one of the two"); return; }
    form.classList.add("busy");
    try { await work(job); } catch (fault) { refuse(fault.message, fault.hint); }
    form.classList.remove("busy");
  };
  form.oninput = () => { key = freshKey(); result.replaceChildren(); };
  form.querySelector("[value=close]").onclick = () => box.close();
  form.querySelector("[value=try]").onclick = () => ask(async (job) => {
    const forecast = await call("POST", "dry-run/job", { body: job });
    render(result, foresee(app, forecast, job));
  });
  form.onsubmit = (event) => {
    event.preventDefault();
    ask(async (job) => {
      const made = await call("POST", "jobs", { body: job, idempotencyKey: key });
      box.close();
      app.notice("submitted", `job ${made.id} submitted`, made.reason?.text ?? "", true);
      app.go({ job: made.id });
      app.wake(true);
    });
  };
}

function requestOf(form) {
  const fields = new FormData(form);
  const text = (name) => fields.get(name)?.trim() || undefined;
  const number = (name) => (text(name) === undefined ? undefined : Number(text(name)));
  return { workload: text("workload"), tenant: text("tenant"), name: text("name"), gang: number("gang"), steps: number("steps"),
    period_seconds: number("period"),
    floor: number("floor"), weight: number("weight"), kinds: fields.getAll("kinds") };
}

function foresee(app, f, job) {
  const now = app.now();
  if (f.refusal) return h("p", { class: "wrong" }, f.refusal);
  if (f.starts_at == null) return [h("p", null, `It would not start within ${plural(f.rounds, "simulated round")}.`),
    f.reason && h("p", { class: "dim" }, f.reason.text)];
  return [
    h("p", null, h("b", null, "It would start ", when(f.starts_at, now)), f.kind && ` on ${job.gang} × ${f.kind}`,
      f.nodes > 1 && ` on ${f.nodes} nodes`, f.shared && ", sharing its GPU",
      f.rate != null && `, at ${rate(f.rate)}`, f.ends_at != null && [" and end ", when(f.ends_at, now)], "."),
    f.reason && h("p", { class: "dim" }, `Until then: ${f.reason.text}.`),
    h("p", { class: "dim" }, `${plural(f.rounds, "round")} simulated from the current state; later submissions can change this.`)];
}
