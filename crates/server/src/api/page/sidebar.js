// The list of conversations, by date.

import { $, button, element } from "./dom.js";

const DAY = 86_400_000;

/** The heading under which a time is listed. */
export function period(time, now) {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 7 * DAY) return "Last 7 days";
  // conversations of earlier versions have no date
  if (time < DAY) return "Earlier";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

function rename(item, chat, act) {
  const field = element("input");
  field.value = chat.title;
  field.setAttribute("aria-label", "Name of the conversation");
  let done = false;
  const finish = (title) => {
    if (done) return;
    done = true;
    act.rename(chat, title);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) finish(field.value.trim());
    if (event.key === "Escape") {
      event.stopPropagation();
      finish("");
    }
  });
  field.addEventListener("blur", () => finish(field.value.trim()));
  item.replaceChildren(field);
  field.select();
}

function row(chat, current, act) {
  const name = chat.title || "New chat";
  const item = element("li");
  const title = button(name, () => act.open(chat));
  title.className = "title";
  title.title = name;
  title.setAttribute("aria-current", chat === current);
  item.append(
    title,
    button(`Rename ${name}`, () => rename(item, chat, act), { image: "edit", bare: true }),
    button(`Delete ${name}`, () => act.remove(chat), { image: "delete", bare: true }),
  );
  return item;
}

function damaged(key, { text, reason }, act) {
  const item = element("li", "damaged", element("p", "", `A conversation is damaged: ${reason}.`));
  item.append(
    button("Export", () => act.download(text, `${key}.json`), { image: "export" }),
    button("Delete", () => act.discard(key, text), { image: "delete" }),
  );
  return item;
}

/** Shows the conversations of a store in which a word occurs. */
export function list(store, current, word, act) {
  const sought = word.toLowerCase();
  const fits = (chat) => !sought || [chat.title, ...chat.messages.map((one) => one.content)]
    .some((text) => text.toLowerCase().includes(sought));
  const groups = new Map();
  for (const chat of store.list().filter(fits)) {
    const heading = period(chat.updated, Date.now());
    groups.set(heading, [...(groups.get(heading) ?? []), row(chat, current, act)]);
  }
  if (store.damaged.size && !sought) {
    groups.set("Damaged", [...store.damaged].map(([key, record]) => damaged(key, record, act)));
  }
  $("chats").replaceChildren(...[...groups].flatMap(([heading, items]) =>
    [element("h3", "", heading), element("ul", "", ...items)]));
}
