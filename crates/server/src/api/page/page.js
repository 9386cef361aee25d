// The page: what is shown, and what happens.

import { ask, get } from "./answer.js";
import * as conversation from "./conversation.js";
import { $, button, element } from "./dom.js";
import { Waiting } from "./images.js";
import { article, editor, modelName } from "./messages.js";
import * as settings from "./settings.js";
import { keep, local, session } from "./settings.js";
import { list } from "./sidebar.js";
import { Store } from "./store.js";

const WIDE = matchMedia("(min-width: 60.01rem)");
const EXAMPLES = ["Tell me a story about a cat", "What is 2 plus 3?", "Write about the sea"];
const OPEN = "pelton-open";
const DRAFT = "pelton-draft";
// An answer of another tab whose record is older than this has no tab any more.
const SILENT = 10_000;

const store = new Store(local);
let chat = store.chats.get(session.getItem(OPEN)) ?? null;
// the answer that grows: {chat, message, abort, update}
let running = null;
// the pictures of the next message
const waiting = new Waiting($("pictures"));

/** Says something above the field for messages, with a button that does something about it. */
function status(text, { wrong = false, label = "", act = null } = {}) {
  $("status").replaceChildren(...(text ? [element("p", "", text)] : []));
  $("status").classList.toggle("wrong", wrong);
  if (label) $("status").append(button(label, act));
}

function save(one) {
  one.updated = Date.now();
  if (!store.save(one)) {
    status("The browser has no room for this conversation. Export and delete some.", { wrong: true });
  }
}

/** How an answer ended; of one that this tab does not receive, whether another does. */
function state(message) {
  if (message.state !== "running" || running?.message === message) return message.state;
  return Date.now() - chat.updated < SILENT ? "elsewhere" : "interrupted";
}

function welcome() {
  const examples = EXAMPLES.map((text) => button(text, () => send(text)));
  return element("div", "welcome", element("h2", "", "What shall we write?"), ...examples);
}

let lookAgain = 0;

const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 80;

/** Shows the conversation: its end, or the same place of it as before. */
function show(toEnd = false) {
  const messages = chat ? conversation.pathTo(chat, chat.leaf) : [];
  const branches = chat ? conversation.branches(chat) : new Map();
  clearTimeout(lookAgain);
  const nodes = messages.map((message, at) => {
    const isLast = at === messages.length - 1;
    const isGrowing = running?.message === message;
    const view = {
      isLast, isGrowing, isBusy: Boolean(running), siblings: branches.get(message.parent), withTokens: $("logprobs").checked,
      state: isLast && message.role === "user" ? "none" : state(message),
    };
    const { node, update } = article(message, view, act);
    if (isGrowing) running.update = update;
    if (view.state === "elsewhere") lookAgain = setTimeout(refresh, SILENT);
    return node;
  });
  const box = $("messages");
  const place = !toEnd && box.dataset.chat === chat?.id && !isAtEnd(box) ? box.scrollTop : null;
  const unfolded = [...box.querySelectorAll("details[open]")].map((one) => one.closest(".message").dataset.id);
  box.dataset.chat = chat?.id ?? "";
  box.replaceChildren(...(nodes.length ? nodes : [welcome()]));
  for (const id of unfolded) box.querySelector(`[data-id="${id}"] details`)?.setAttribute("open", "");
  box.scrollTop = place ?? box.scrollHeight;
  $("send").hidden = Boolean(running);
  $("stop").hidden = !running;
  keep(session, OPEN, chat?.id ?? "");
  refreshChats();
}

const showChats = () => list(store, chat, $("search").value, act);
/** Shows the list again, but not over a name that is being edited. */
const refreshChats = () => ($("chats").querySelector("input") ? undefined : showChats());
/** Shows what another tab has changed, but not over a text that is being edited. */
const refresh = () => ($("messages").querySelector(".editor") ? undefined : show());

/** Shows what has come of the growing answer, seldom enough that the page stays quick, and saves it. */
function grower(one) {
  let timer = 0;
  let drawn = 0;
  let saved = performance.now();
  const draw = () => {
    timer = 0;
    const begun = performance.now();
    const box = $("messages");
    const follows = one.chat === chat && isAtEnd(box);
    one.update?.();
    if (follows) box.scrollTop = box.scrollHeight;
    if (begun - saved > 1000) {
      save(one.chat);
      saved = performance.now();
    }
    drawn = performance.now() - begun;
  };
  const grown = () => {
    timer ||= setTimeout(draw, Math.max(40, 4 * drawn));
  };
  return { grown, end: () => clearTimeout(timer) };
}

/** The content of a message for a request. */
function sent({ content, images }) {
  if (!images?.length) return content;
  const parts = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return content ? [...parts, { type: "text", text: content }] : parts;
}

/** Receives an answer into a message, or the rest of one. */
async function receive(message, goesOn) {
  const own = chat;
  const { content, role } = message;
  const messages = conversation.pathTo(own, message.parent)
    .filter((one) => one.content || one.images).map((one) => ({ role: one.role, content: sent(one) }));
  if (goesOn) messages.push({ role, content });
  if ($("system").value) messages.unshift({ role: "system", content: $("system").value });
  const body = { ...settings.fields(), messages };
  if (goesOn) body.continue_final_message = true;
  for (const field of ["error", "stats"]) delete message[field];
  Object.assign(message, { state: "running", model: body.model });
  store.own(message);
  running = { chat: own, message, abort: new AbortController(), update: null };
  const { grown, end } = grower(running);
  status("");
  $("announced").textContent = "The model is answering.";
  save(own);
  show(true);
  const ended = await ask(message, body, settings.headers(), running.abort.signal, grown);
  end();
  running = null;
  // a page that was left during the answer has said so
  if (message.state === "running") Object.assign(message, ended);
  for (const field of ["state", "error", "stats", "model"]) if (message[field] === undefined) delete message[field];
  save(own);
  $("announced").textContent = message.state ? "The answer has ended early." : "The answer is complete.";
  show();
  if (document.activeElement === document.body && matchMedia("(hover: hover)").matches) $("text").focus();
}

/** Whether the settings make a request; says what is wrong with them. */
function isReady() {
  if (running) return false;
  try {
    settings.fields();
    return true;
  } catch (error) {
    status(error.message, { wrong: true });
    return false;
  }
}

/** Adds a question that answers a message, and asks it. */
function question(parent, text, images = []) {
  const shown = images.length ? { images } : {};
  store.own(conversation.add(chat, parent, { role: "user", content: text, ...shown }));
  receive(conversation.add(chat, chat.leaf, { role: "assistant", content: "" }), false);
}

function send(text) {
  if (!(text.trim() || waiting.count) || !isReady()) return;
  chat ??= conversation.begin();
  chat.title ||= text.trim().replace(/\s+/g, " ").slice(0, 60) || "Picture";
  $("text").value = "";
  draft();
  question(chat.leaf, text, waiting.take());
}

function download(text, name) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function open(one) {
  chat = one;
  if (!WIDE.matches) panel($("menu"), $("side"), false);
  status("");
  show();
}

// What the buttons of messages and of the list do.
const act = {
  branch(message, isNext) {
    chat.leaf = conversation.descend(chat, message.id);
    save(chat);
    show();
    const [first, second] = $("messages").querySelectorAll(`[data-id="${message.id}"] .branches button`);
    (isNext ? [second, first] : [first, second]).find((one) => !one.disabled).focus();
  },
  edit(message) {
    const node = $("messages").querySelector(`[data-id="${message.id}"]`);
    const form = editor(message, (text) => isReady() && question(message.parent, text, message.images), () => show());
    node.replaceChildren(form);
    form.querySelector("textarea").focus();
  },
  retry(message) {
    if (!isReady()) return;
    const isEmpty = message.role === "assistant" && !message.content && !message.reasoning && !message.calls;
    const parent = message.role === "user" ? message.id : message.parent;
    receive(isEmpty ? message : conversation.add(chat, parent, { role: "assistant", content: "" }), false);
  },
  proceed(message) {
    if (isReady()) receive(message, true);
  },
  open,
  rename(one, title) {
    if (title && title !== one.title) {
      one.title = title;
      store.save(one);
    }
    showChats();
  },
  remove(one) {
    if (running?.chat === one) {
      status("The conversation is being answered. Stop the answer, then delete it.", { wrong: true });
      return;
    }
    store.remove(one);
    const undo = () => {
      for (const message of one.messages) store.own(message);
      store.save(one);
      open(one);
    };
    if (chat === one) chat = null;
    show();
    status(`“${one.title}” is deleted.`, { label: "Undo", act: undo });
  },
  download,
  discard(key, text) {
    store.discard(key);
    showChats();
    const undo = () => {
      keep(local, key, text);
      store.read(key);
      status("");
      showChats();
    };
    status("The damaged conversation is deleted.", { label: "Undo", act: undo });
  },
};

/** Whether the chosen model takes pictures, or may when it is loaded. */
const sees = () => $("model").selectedOptions[0]?.dataset.sees === "true";

/** Takes files as pictures of the next message; whether there were any. */
function attach(files) {
  if (!files?.length || !sees()) return false;
  waiting.add(files).catch((error) => status(`${error.message}.`, { wrong: true }));
  return true;
}

/** Shows what the chosen model is. */
function described() {
  const { value } = $("model");
  $("model").title = value;
  $("demonstration").hidden = value !== "built-in";
  $("attach").hidden = !sees();
}

async function models() {
  try {
    const { data } = await get("v1/models", settings.headers());
    const names = data.map(({ id }) => modelName(id));
    const isUnique = new Set(names).size === names.length;
    $("model").replaceChildren(...data.map(({ id, capabilities }, at) => {
      const option = new Option(isUnique ? names[at] : id, id);
      option.dataset.sees = String(!capabilities || capabilities.includes("vision"));
      return option;
    }));
    const last = local.getItem("pelton-model");
    if (data.some(({ id }) => id === last)) $("model").value = last;
    described();
    status("");
  } catch (error) {
    status(`The models could not be read: ${error.message}.`, { wrong: true, label: "Retry", act: models });
  }
}

/** Shows or hides a panel; on a narrow screen one at a time covers the messages. */
function panel(opener, node, isShown) {
  node.hidden = !isShown;
  opener.setAttribute("aria-expanded", isShown);
  if (node === $("side") && WIDE.matches) keep(local, "pelton-side", String(isShown));
}
const PANELS = [[$("menu"), $("side"), $("side-close")], [$("settings-open"), $("settings"), $("settings-close")]];
for (const [opener, node, closer] of PANELS) {
  opener.addEventListener("click", () => {
    const isShown = node.hidden;
    if (!WIDE.matches) PANELS.forEach(([other, its]) => panel(other, its, false));
    panel(opener, node, isShown);
  });
  closer.addEventListener("click", () => {
    panel(opener, node, false);
    opener.focus();
  });
}

/** Keeps the text of the field, whose height follows it. */
function draft() {
  const text = $("text");
  keep(session, DRAFT, text.value);
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}

$("text").addEventListener("input", draft);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send($("text").value);
  }
});
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send($("text").value);
});
$("attach").addEventListener("click", () => $("attach-file").click());
$("attach-file").addEventListener("change", (event) => {
  attach([...event.target.files]);
  event.target.value = "";
});
$("text").addEventListener("paste", (event) => {
  if (attach([...(event.clipboardData?.files ?? [])])) event.preventDefault();
});
document.addEventListener("dragover", (event) => {
  if (sees() && event.dataTransfer?.types.includes("Files")) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  if (attach([...(event.dataTransfer?.files ?? [])])) event.preventDefault();
});
$("stop").addEventListener("click", () => running?.abort.abort());
$("model").addEventListener("change", () => {
  keep(local, "pelton-model", $("model").value);
  described();
});
$("new").addEventListener("click", () => {
  open(null);
  $("text").focus();
});
$("search").addEventListener("input", showChats);
$("export").addEventListener("click", () => download(store.export(), "pelton-chats.json"));
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  try {
    const { added, refused } = store.import(await file.text());
    const count = `${added} ${added === 1 ? "conversation" : "conversations"} imported.`;
    status(refused.length ? `${count} Refused: ${refused.join("; ")}.` : count, { wrong: refused.length > 0 });
  } catch (error) {
    status(`The file could not be imported: ${error.message}.`, { wrong: true });
  }
  event.target.value = "";
  showChats();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (running) {
    running.abort.abort();
    return;
  }
  const shown = !WIDE.matches && PANELS.find(([, node]) => !node.hidden);
  if (!shown) return;
  panel(shown[0], shown[1], false);
  shown[0].focus();
});
// another tab has written
addEventListener("storage", ({ key, storageArea }) => {
  if (storageArea !== local || key === null) return;
  const id = store.read(key);
  if (!chat || id !== chat.id) {
    refreshChats();
    return;
  }
  if (running?.chat !== chat && !store.chats.has(chat.id)) {
    chat = null;
    status("The conversation was deleted in another tab.");
  }
  refresh();
});
// a page that is left keeps what it has received
addEventListener("pagehide", () => {
  if (!running) return;
  running.message.state = "interrupted";
  save(running.chat);
  running.abort.abort();
});

settings.begin((name) => {
  if (["key", "remember"].includes(name)) models();
  if (name === "logprobs" && !running) show();
});
panel($("menu"), $("side"), WIDE.matches && local.getItem("pelton-side") !== "false");
$("text").value = session.getItem(DRAFT) ?? "";
models();
show();
draft();
if (WIDE.matches) $("text").focus();
