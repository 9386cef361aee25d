"use strict";
// Conversations are kept in this browser only. A message: {role, content, reasoning, stats, tokens,
// parent}; a conversation: {id, title, messages, leaf}, where edits and regenerations are branches.

const $ = (id) => document.getElementById(id);
const SETTINGS = ["system", "temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "schema", "key", "logprobs"];
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];

const WIDE = matchMedia("(min-width: 60.01rem)");
const EXAMPLES = ["Tell me a story about a cat", "What is 2 plus 3?", "Write about the sea"];

// What the browser has kept under a name; nothing if it is damaged or forbidden.
function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

let chats = kept("pelton-chats", []);
let chat = chats[0] || null;
let running = null;

const save = () => {
  try {
    localStorage.setItem("pelton-chats", JSON.stringify(chats));
  } catch {
    status("The browser has no room for more conversations: export and delete some.", true);
  }
};
function status(text, wrong = false) {
  $("status").textContent = text;
  $("status").classList.toggle("wrong", wrong);
}

function button(label, act) {
  const node = document.createElement("button");
  node.type = "button";
  node.textContent = label;
  node.addEventListener("click", act);
  return node;
}

// The messages from the first to the leaf of the branch that is shown.
function path() {
  const all = [];
  for (let at = chat ? chat.leaf : null; at !== null && at !== undefined; at = chat.messages[at].parent) {
    all.unshift(at);
  }
  return all;
}

const siblings = (at) => {
  const { parent, role } = chat.messages[at];
  return chat.messages.map((_, i) => i).filter((i) => chat.messages[i].parent === parent && chat.messages[i].role === role);
};

function descend(at) {
  for (;;) {
    const children = chat.messages.map((_, i) => i).filter((i) => chat.messages[i].parent === at);
    if (!children.length) return at;
    at = children[children.length - 1];
  }
}

function add(message) {
  message.parent = message.parent === undefined ? chat.leaf : message.parent;
  chat.messages.push(message);
  chat.leaf = chat.messages.length - 1;
  return chat.leaf;
}

function fill(node, message) {
  const parts = [];
  if (message.reasoning) {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Reasoning";
    details.open = node.querySelector("details")?.open || false;
    details.append(summary, ...markdown(message.reasoning));
    parts.push(details);
  }
  const body = document.createElement("div");
  body.className = "body";
  if (message.tokens?.length && $("logprobs").checked) {
    for (const token of message.tokens) {
      const span = document.createElement("span");
      span.textContent = token.text;
      span.title = token.top.map(([text, p]) => `${JSON.stringify(text)} ${(100 * Math.exp(p)).toFixed(1)} %`).join("\n");
      body.append(span);
    }
  } else if (message.role === "user") {
    body.textContent = message.content;
  } else {
    body.append(...markdown(message.content));
  }
  parts.push(body);
  for (const call of message.calls || []) {
    const pre = document.createElement("pre");
    pre.textContent = `${call.name}(${call.arguments})`;
    parts.push(pre);
  }
  const old = node.querySelector(".tools");
  node.replaceChildren(...parts, ...(old ? [old] : []));
}

function tools(at) {
  const message = chat.messages[at];
  const row = document.createElement("div");
  row.className = "tools";
  const all = siblings(at);
  if (all.length > 1) {
    const here = all.indexOf(at);
    const go = (to) => () => {
      if (running || to < 0 || to >= all.length) return;
      chat.leaf = descend(all[to]);
      save();
      show();
    };
    const previous = button("‹", go(here - 1));
    const next = button("›", go(here + 1));
    previous.setAttribute("aria-label", "Previous branch");
    next.setAttribute("aria-label", "Next branch");
    row.append(previous, `${here + 1}/${all.length}`, next);
  }
  const copy = button("Copy", () => {
    navigator.clipboard.writeText(message.content).then(() => (copy.textContent = "Copied"));
  });
  row.append(copy);
  if (message.role === "user") row.append(button("Edit", () => edit(at)));
  else row.append(button("Regenerate", () => { chat.leaf = message.parent; answer(); }));
  if (message.stats) {
    const stats = document.createElement("span");
    stats.className = "stats";
    stats.textContent = message.stats;
    row.append(stats);
  }
  return row;
}

// Edits a message in its place; the new text begins a branch next to the old one.
function edit(at) {
  if (running) return;
  const { content, parent } = chat.messages[at];
  const node = $("messages").querySelector(`[data-at="${at}"]`);
  const form = document.createElement("form");
  const text = document.createElement("textarea");
  const row = document.createElement("div");
  const done = button("Send", () => form.requestSubmit());
  form.className = "editor";
  row.className = "row";
  done.className = "main";
  text.rows = Math.min(10, content.split("\n").length + 1);
  text.value = content;
  text.setAttribute("aria-label", "Edited message");
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!text.value.trim() || running) return;
    chat.leaf = parent;
    add({ role: "user", content: text.value });
    answer();
  });
  row.append(button("Cancel", show), done);
  form.append(text, row);
  node.replaceChildren(form);
  text.focus();
}

function welcome() {
  const node = document.createElement("div");
  node.className = "welcome";
  const heading = document.createElement("h2");
  heading.textContent = "What shall we write?";
  node.append(heading, ...EXAMPLES.map((text) => button(text, () => { $("text").value = text; send(); })));
  return node;
}

function show() {
  const nodes = path().map((at) => {
    const node = document.createElement("article");
    node.className = `message ${chat.messages[at].role}`;
    node.dataset.at = at;
    node.setAttribute("aria-label", chat.messages[at].role === "user" ? "You" : "Model");
    fill(node, chat.messages[at]);
    node.append(tools(at));
    return node;
  });
  $("messages").replaceChildren(...(nodes.length ? nodes : [welcome()]));
  $("messages").scrollTop = $("messages").scrollHeight;
  list();
}

function list() {
  const word = $("search").value.toLowerCase();
  const fits = (one) => !word || one.messages.some((m) => m.content.toLowerCase().includes(word));
  $("chats").replaceChildren(...chats.filter(fits).map((one) => {
    const title = button(one.title || "New chat", () => {
      if (running) return;
      chat = one;
      show();
      if (!WIDE.matches) open($("menu"), $("side"), false);
    });
    title.setAttribute("aria-current", one === chat);
    const remove = button("×", () => {
      if (running) return;
      chats = chats.filter((other) => other !== one);
      if (chat === one) chat = chats[0] || null;
      save();
      show();
    });
    remove.setAttribute("aria-label", `Delete ${one.title || "chat"}`);
    const item = document.createElement("li");
    item.append(title, remove);
    return item;
  }));
}

function headers() {
  const all = { "content-type": "application/json" };
  if ($("key").value) all.authorization = `Bearer ${$("key").value}`;
  return all;
}

function request() {
  const messages = path().map((at) => ({ role: chat.messages[at].role, content: chat.messages[at].content }));
  if ($("system").value) messages.unshift({ role: "system", content: $("system").value });
  const body = { model: $("model").value || undefined, messages, stream: true, stream_options: { include_usage: true } };
  for (const name of NUMBERS) if ($(name).value !== "") body[name] = Number($(name).value);
  if ($("schema").value.trim()) {
    const schema = JSON.parse($("schema").value);
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  }
  if ($("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return body;
}

// The JSON of each event of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const frames = held.split("\n\n");
    held = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
  }
}

function take(message, chunk) {
  if (chunk.error) throw new Error(chunk.error.message);
  if (chunk.usage) message.count = chunk.usage.completion_tokens;
  for (const choice of chunk.choices) {
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta;
    if (content) message.content += content;
    if (reasoning) message.reasoning = (message.reasoning || "") + reasoning;
    for (const call of calls || []) {
      message.calls ||= [];
      const own = (message.calls[call.index] ||= { name: "", arguments: "" });
      own.name += call.function.name || "";
      own.arguments += call.function.arguments || "";
    }
    for (const token of choice.logprobs?.content || []) {
      message.tokens ||= [];
      message.tokens.push({ text: token.token, top: token.top_logprobs.map((top) => [top.token, top.logprob]) });
    }
  }
}

async function answer() {
  if (running) return;
  let body;
  try {
    body = request();
  } catch (error) {
    status(`The JSON Schema is not valid: ${error.message}`, true);
    return;
  }
  status("The model is answering.");
  const message = { role: "assistant", content: "" };
  const at = add(message);
  show();
  const node = $("messages").lastElementChild;
  node.classList.add("busy");
  running = new AbortController();
  $("send").hidden = true;
  $("stop").hidden = false;
  const begun = performance.now();
  let first = 0;
  let drawn = 0;
  let stopped = false;
  let failed = "";
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), body: JSON.stringify(body), signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const chunk of events(response)) {
      take(message, chunk);
      if (!first && (message.content || message.reasoning)) first = performance.now();
      if (performance.now() - drawn > 40) {
        drawn = performance.now();
        const box = $("messages");
        const end = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
        fill(node, message);
        if (end) box.scrollTop = box.scrollHeight;
      }
    }
  } catch (error) {
    stopped = error.name === "AbortError";
    failed = stopped ? "" : error.message;
  }
  status(failed || (stopped ? "The answer was stopped." : ""), Boolean(failed));
  if (first) {
    const seconds = (performance.now() - first) / 1000;
    const rate = message.count > 1 && seconds > 0 ? `, ${((message.count - 1) / seconds).toFixed(1)} tokens/s` : "";
    message.stats = `first token after ${((first - begun) / 1000).toFixed(2)} s${rate}`;
  }
  running = null;
  $("send").hidden = false;
  $("stop").hidden = true;
  if (!message.content && !message.reasoning && !message.calls) {
    chat.messages.splice(at, 1);
    chat.leaf = message.parent;
  }
  save();
  show();
  $("text").focus();
}

function send() {
  const text = $("text").value;
  if (!text.trim() || running) return;
  if (!chat) {
    chat = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", messages: [], leaf: null };
    chats.unshift(chat);
  }
  chat.title ||= text.slice(0, 60);
  add({ role: "user", content: text });
  $("text").value = "";
  grow();
  answer();
}

async function models() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    const json = await response.json();
    if (!response.ok) throw new Error(json.error.message);
    $("model").replaceChildren(...json.data.map((model) => new Option(model.id, model.id)));
    const last = localStorage.getItem("pelton-model");
    if (json.data.some((model) => model.id === last)) $("model").value = last;
    status("");
  } catch (error) {
    status(`The models could not be read: ${error.message}`, true);
  }
}

for (const name of SETTINGS) {
  const node = $(name);
  const value = kept("pelton-settings", {})[name];
  if (node.type === "checkbox") node.checked = Boolean(value);
  else if (value !== undefined) node.value = value;
  node.addEventListener("change", () => {
    const all = Object.fromEntries(SETTINGS.map((one) => [one, $(one).type === "checkbox" ? $(one).checked : $(one).value]));
    localStorage.setItem("pelton-settings", JSON.stringify(all));
    if (name === "key") models();
    if (name === "logprobs" && !running) show();
  });
}
// Shows or hides a panel; on a narrow screen one at a time covers the messages.
function open(opener, panel, shown) {
  panel.hidden = !shown;
  opener.setAttribute("aria-expanded", shown);
  if (panel === $("side") && WIDE.matches) localStorage.setItem("pelton-side", shown);
}
const PANELS = [[$("menu"), $("side")], [$("settings-open"), $("settings")]];
for (const [opener, panel] of PANELS) {
  opener.addEventListener("click", () => {
    const shown = panel.hidden;
    if (!WIDE.matches) PANELS.forEach(([other, its]) => open(other, its, false));
    open(opener, panel, shown);
  });
}
open($("menu"), $("side"), WIDE.matches && kept("pelton-side", true));

// The height of the field for the message follows its text.
function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}
$("text").addEventListener("input", grow);
$("model").addEventListener("change", () => localStorage.setItem("pelton-model", $("model").value));
$("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => {
  if (running) return;
  chat = null;
  if (!WIDE.matches) open($("menu"), $("side"), false);
  show();
  $("text").focus();
});
$("search").addEventListener("input", list);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (running) {
    running.abort();
  } else if (!WIDE.matches) {
    const shown = PANELS.find(([, panel]) => !panel.hidden);
    if (shown) {
      open(...shown, false);
      shown[0].focus();
    }
  }
});
$("key-form").addEventListener("submit", (event) => event.preventDefault());
$("export").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(chats, null, 1)], { type: "application/json" }));
  link.download = "pelton-chats.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  try {
    const more = JSON.parse(await file.text());
    const good = (one) => Array.isArray(one?.messages) && one.messages.every((m) => typeof m.content === "string");
    if (!Array.isArray(more) || !more.every(good)) throw new Error("it has no conversations");
    const known = new Set(chats.map((one) => one.id));
    chats.unshift(...more.filter((one) => !known.has(one.id)));
    save();
    list();
  } catch (error) {
    status(`The file could not be imported: ${error.message}`, true);
  }
  event.target.value = "";
});
models();
show();
if (WIDE.matches) $("text").focus();
