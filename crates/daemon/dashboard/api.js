// The way to the API: requests with the token, its refusals as sentences, and the stream of events.
//
// The token lives in sessionStorage, so it ends with the tab, and travels in a header only: no cookie that another site could
// make the browser send, no address that a log could keep.

const PLACE = "arles-token";
let token = sessionStorage.getItem(PLACE);

export const hasToken = () => Boolean(token);
export function setToken(secret) {
  token = secret || null;
  if (token) sessionStorage.setItem(PLACE, token);
  else sessionStorage.removeItem(PLACE);
}

/** What the API, or the way to it, refused. */
export class Fault extends Error {
  constructor(status, { code, message, hint }, retryAfter) {
    super(message);
    Object.assign(this, { status, code, hint, retryAfter });
  }
}

const unreachable = () => new Fault(0, {
  code: "unreachable",
  message: `${location.host} does not respond`,
  hint: "is “arles serve” running there? Showing the last known state; retrying",
});

const headers = (more) => (token ? { ...more, Authorization: `Bearer ${token}` } : more);

async function faultOf(answer) {
  const said = await answer.json().catch(() => null);
  const body = said?.error ?? { code: "unknown", message: `the server responded with status ${answer.status}`, hint: "see the server's log" };
  return new Fault(answer.status, body, Number(answer.headers.get("Retry-After")) || null);
}

/** Asks the API. `query` is an object; what is null, empty or undefined in it is left out. */
export async function call(method, path, { query, body, idempotencyKey } = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value != null && value !== "") asked.set(name, value);
  const sent = { Accept: "application/json" };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (idempotencyKey) sent["Idempotency-Key"] = idempotencyKey;
  const tail = asked.size ? `?${asked}` : "";
  let answer;
  try {
    answer = await fetch(`/v1/${path}${tail}`, {
      method, headers: headers(sent), body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
      signal: AbortSignal.timeout(30_000),
    });
    if (answer.ok) return await answer.json();
  } catch {
    throw unreachable();
  }
  throw await faultOf(answer);
}

export const get = (path, query) => call("GET", path, { query });

/** All pages of a list up to `most` entries: `{items, whole}`. */
export async function all(path, field, most, query) {
  const items = [];
  let cursor;
  do {
    const page = await get(path, { ...query, limit: Math.min(1000, most), cursor });
    for (const item of page[field]) items.push(item);
    cursor = page.next;
  } while (cursor && items.length < most);
  return { items, whole: !cursor };
}

/** A key that makes repeating a submission harmless. */
export const freshKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

function parse(block) {
  const fields = { event: "message", data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
  }
  return fields;
}

async function readStream(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) take(parse(block));
  }
}

const sleep = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
});

/** Listens from `after` on until `signal` ends it: `on.event(event)`, `on.reset()`, `on.connected(bool)`. */
export async function listen(after, on, signal) {
  let [last, pause] = [after, 1000];
  while (!signal.aborted) {
    try {
      const answer = await fetch("/v1/events", { headers: headers({ Accept: "text/event-stream", "Last-Event-ID": String(last) }), cache: "no-store",
        signal });
      if (!answer.ok) throw await faultOf(answer);
      on.connected(true);
      await readStream(answer.body, ({ event, data, id }) => {
        pause = 1000;
        if (id) last = Number(id);
        if (event === "reset") on.reset();
        else if (data) on.event(JSON.parse(data));
      });
    } catch (fault) {
      if (fault.status === 401) on.unauthorized();
    }
    if (signal.aborted) return;
    on.connected(false);
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, 30_000);
  }
}
