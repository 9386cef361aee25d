// The settings, which this browser keeps. The key lasts as long as the tab unless it is remembered.

import { $ } from "./dom.js";
import { memory } from "./store.js";

/** A storage of the browser, or one that lasts as long as the page where it allows none. */
function usable(name) {
  try {
    // reading a forbidden storage throws
    return window[name].length >= 0 ? window[name] : memory();
  } catch {
    return memory();
  }
}
export const local = usable("localStorage");
export const session = usable("sessionStorage");

/** Keeps a text; a full storage keeps nothing. */
export function keep(storage, name, text) {
  try {
    if (text) storage.setItem(name, text);
    else storage.removeItem(name);
  } catch {
    // a setting that is lost at the next visit
  }
}

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];
const FIELDS = ["system", ...NUMBERS, "schema", "logprobs"];
const NAME = "pelton-settings";
const KEY = "pelton-key";

function kept() {
  try {
    const all = JSON.parse(local.getItem(NAME));
    return all && typeof all === "object" ? all : {};
  } catch {
    return {};
  }
}

function write(fields) {
  keep(local, NAME, JSON.stringify({ ...kept(), ...fields }));
}

function writeKey() {
  const remembered = $("remember").checked;
  keep(session, KEY, remembered ? "" : $("key").value);
  keep(local, KEY, remembered ? $("key").value : "");
}

/** Fills the fields in, and calls `changed` with the name of one that changes. */
export function begin(changed) {
  const { key, ...all } = kept();
  if (key !== undefined) {
    // earlier versions kept the key with the rest
    keep(local, NAME, JSON.stringify(all));
    if (typeof key === "string") keep(session, KEY, key);
  }
  for (const name of FIELDS) {
    const node = $(name);
    const property = node.type === "checkbox" ? "checked" : "value";
    if (["string", "boolean"].includes(typeof all[name])) node[property] = all[name];
    node.addEventListener("change", () => {
      write({ [name]: node[property] });
      changed(name);
    });
  }
  $("remember").checked = local.getItem(KEY) !== null;
  $("key").value = local.getItem(KEY) ?? session.getItem(KEY) ?? "";
  for (const name of ["key", "remember"]) {
    $(name).addEventListener("change", () => {
      writeKey();
      changed(name);
    });
  }
  $("key-form").addEventListener("submit", (event) => event.preventDefault());
}

/** The headers of a request. */
export function headers() {
  const all = { "content-type": "application/json" };
  if ($("key").value) all.authorization = `Bearer ${$("key").value}`;
  return all;
}

/** The fields of a request but its messages. Throws if the JSON Schema is none. */
export function fields() {
  const body = { model: $("model").value || undefined, stream: true, stream_options: { include_usage: true } };
  for (const name of NUMBERS) if ($(name).value !== "") body[name] = Number($(name).value);
  if ($("schema").value.trim()) {
    let schema;
    try {
      schema = JSON.parse($("schema").value);
    } catch (error) {
      throw new Error(`The JSON Schema is not valid: ${error.message}`);
    }
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  }
  if ($("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return body;
}
