// Messages as elements.

import { button, copier, element } from "./dom.js";
import { pictures } from "./images.js";
import { Growing, markdown } from "./markdown.js";

/** A model's id as a name: without its folder and the ending of its file. */
export const modelName = (id) => id.replace(/^.*[/\\]/, "").replace(/\.gguf$/i, "") || id;

function reasoning() {
  return element("details", "", element("summary", "", "Reasoning"), element("div"));
}

function tokens(all) {
  return all.map((token) => {
    const node = element("span", "", token.text);
    node.title = token.top.map(([text, p]) => `${JSON.stringify(text)} ${(100 * Math.exp(p)).toFixed(1)} %`).join("\n");
    return node;
  });
}

/** The content of a complete message. */
function content(message, withTokens) {
  const parts = message.images?.length ? [pictures(message.images)] : [];
  if (message.reasoning) {
    const node = reasoning();
    node.lastChild.append(...markdown(message.reasoning));
    parts.push(node);
  }
  const body = element("div", "body");
  if (withTokens && message.tokens?.length) body.append(...tokens(message.tokens));
  else if (message.role === "user") body.append(message.content);
  else body.append(...markdown(message.content));
  if (message.content) parts.push(body);
  for (const call of message.calls ?? []) parts.push(element("pre", "call", `${call.name}(${call.arguments})`));
  return parts;
}

/** A message whose text grows: returns its element and what shows the text that it has by now. */
function growing(message) {
  const body = element("div", "body");
  const node = element("div", "", body);
  const text = new Growing(body);
  let thoughts;
  const update = () => {
    if (message.reasoning && !thoughts) {
      const details = reasoning();
      node.prepend(details);
      thoughts = new Growing(details.lastChild);
    }
    thoughts?.update(message.reasoning);
    text.update(message.content);
  };
  update();
  return { node, update };
}

// What is said below an answer that did not end by itself.
const NOTICES = {
  stopped: "The answer was stopped.",
  interrupted: "The page was closed during this answer.",
  cut: "The answer was cut: it reached the maximum of tokens.",
  elsewhere: "Another tab is receiving this answer.",
  none: "This question has no answer yet.",
};

function notice(message, { state, isLast, isBusy }, act) {
  if (!state) return [];
  const text = state === "failed" ? `The answer failed: ${message.error ?? "for an unknown reason"}.` : NOTICES[state];
  const node = element("div", "notice", element("p", "", text.replace(/\.\.$/, ".")));
  node.classList.toggle("wrong", state === "failed");
  if (isLast && !isBusy && state !== "elsewhere") {
    if (message.content && message.role === "assistant" && !message.calls) {
      node.append(button("Continue", () => act.proceed(message), { image: "on" }));
    }
    if (state !== "cut") node.append(button("Retry", () => act.retry(message), { image: "again" }));
  }
  return [node];
}

function tools(message, { siblings, isBusy, isLast, state }, act) {
  const row = element("div", "tools");
  if (siblings.length > 1) {
    const here = siblings.indexOf(message);
    const step = (label, to, image) => {
      const node = button(label, () => act.branch(siblings[to], to > here), { image, bare: true });
      node.disabled = isBusy || !siblings[to];
      return node;
    };
    const count = element("span", "count", `${here + 1}/${siblings.length}`);
    row.append(element("span", "branches", step("Previous branch", here - 1, "previous"), count, step("Next branch", here + 1, "next")));
  }
  // an answer that is empty has a notice with what can be done
  if (isLast && state && !message.content && !message.calls) return row;
  row.append(copier(() => message.content));
  const change = message.role === "user"
    ? button("Edit", () => act.edit(message), { image: "edit" })
    : button("Regenerate", () => act.retry(message), { image: "again" });
  change.disabled = isBusy;
  row.append(change);
  if (message.stats) {
    // a narrow screen has room for the first figure only
    const [first, ...more] = message.stats.split(/(?=, )/);
    row.append(element("span", "stats", first, element("span", "more", ...more)));
  }
  return row;
}

/**
 * The element of a message, and what shows the text of one that grows. `view`: its `state`, its
 * `siblings`, whether it `isLast`, `isGrowing`, and whether an answer `isBusy` growing.
 */
export function article(message, view, act) {
  const node = element("article", `message ${message.role}`);
  node.dataset.id = message.id;
  // a tap on a message shows its buttons
  node.tabIndex = -1;
  node.classList.toggle("last", view.isLast);
  node.classList.toggle("busy", view.isGrowing);
  const name = message.role === "user" ? "You" : modelName(message.model ?? "") || "Model";
  node.setAttribute("aria-label", name);
  if (message.role === "assistant") node.append(element("p", "who", name));
  if (view.isGrowing) {
    const grown = growing(message);
    node.append(grown.node);
    return { node, update: grown.update };
  }
  node.append(...content(message, view.withTokens), ...notice(message, view, act), tools(message, view, act));
  return { node };
}

/** A form in the place of a message, whose text begins a branch. */
export function editor(message, done, cancel) {
  const form = element("form", "editor");
  const text = element("textarea");
  const send = button("Send", () => form.requestSubmit(), { image: "send" });
  send.className = "main";
  text.rows = Math.min(10, message.content.split("\n").length + 1);
  text.value = message.content;
  text.setAttribute("aria-label", "Edited message");
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      cancel();
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (text.value.trim()) done(text.value);
  });
  form.append(text, element("div", "row", button("Cancel", cancel), send));
  return form;
}
