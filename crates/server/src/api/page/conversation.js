// Conversations as plain data: {id, title, updated, leaf, messages}, a message {id, parent, role,
// content, …}. A message answers its parent, so edits and new answers are branches; `leaf` is the
// last message of the branch that is shown. A parent comes before its children.

/** A new identifier. */
export const newId = () => [...crypto.getRandomValues(new Uint32Array(3))].map((word) => word.toString(36)).join("");

/** A conversation without messages. */
export const begin = () => ({ id: newId(), title: "", updated: Date.now(), leaf: null, messages: [] });

const isText = (value) => typeof value === "string";
const isList = (test) => (value) => Array.isArray(value) && value.every(test);
const isCall = (one) => isText(one?.name) && isText(one?.arguments);
const isPair = (one) => Array.isArray(one) && isText(one[0]) && typeof one[1] === "number";
const isPicture = (one) => isText(one) && /^data:image\/[a-z]+;base64,/.test(one);
const isToken = (one) => isText(one?.text) && isList(isPair)(one.top);

// The fields of a message that may be absent, and what they are.
const STATES = ["running", "stopped", "interrupted", "cut", "failed"];
const OPTIONAL = {
  reasoning: isText, model: isText, stats: isText, error: isText, calls: isList(isCall), tokens: isList(isToken),
  images: isList(isPicture),
  state: (value) => STATES.includes(value),
};

/** Throws an error that names what is wrong with a conversation; returns a clean copy of a good one. */
export function check(value) {
  const demand = (good, message) => {
    if (!good) throw new Error(message);
  };
  demand(value && typeof value === "object" && Array.isArray(value.messages), "it has no list of messages");
  demand(isText(value.id) && value.id, "its id is not a text");
  demand(isText(value.title ?? ""), "its title is not a text");
  const known = new Set();
  const messages = value.messages.map((one, at) => {
    const name = `message ${at + 1}`;
    demand(one && typeof one === "object", `${name} is not an object`);
    demand(["user", "assistant"].includes(one.role), `${name} has the role ${JSON.stringify(one.role)}, expected user or assistant`);
    demand(isText(one.content), `${name} has no text`);
    // earlier versions numbered messages
    const id = one.id === undefined ? String(at) : one.id;
    const parent = typeof one.parent === "number" ? String(one.parent) : one.parent ?? null;
    demand(isText(id) && !known.has(id), `${name} has the id of another message, or none`);
    demand(parent === null || known.has(parent), `${name} does not answer an earlier message`);
    known.add(id);
    const message = { id, parent, role: one.role, content: one.content };
    for (const [field, test] of Object.entries(OPTIONAL)) {
      if (one[field] === undefined || one[field] === null) continue;
      demand(test(one[field]), `${field} of ${name} is of a wrong type`);
      message[field] = one[field];
    }
    return message;
  });
  const leaf = typeof value.leaf === "number" ? String(value.leaf) : value.leaf ?? messages.at(-1)?.id ?? null;
  demand(leaf === null || known.has(leaf), "its last message does not exist");
  const updated = Number.isFinite(value.updated) ? value.updated : 0;
  return { id: value.id, title: value.title ?? "", updated, leaf, messages };
}

/** The messages from the first to one. */
export function pathTo(chat, id) {
  const all = new Map(chat.messages.map((one) => [one.id, one]));
  const path = [];
  for (let one = all.get(id); one; one = all.get(one.parent)) path.push(one);
  return path.reverse();
}

/** The messages that are alternatives, by the message that they answer. */
export function branches(chat) {
  const all = new Map();
  for (const one of chat.messages) {
    const others = all.get(one.parent);
    if (others) others.push(one);
    else all.set(one.parent, [one]);
  }
  return all;
}

/** The last message of the newest branch below a message. */
export function descend(chat, id) {
  const all = branches(chat);
  let at = id;
  while (all.has(at)) at = all.get(at).at(-1).id;
  return at;
}

/** Adds a message that answers another, and shows its branch. */
export function add(chat, parent, fields) {
  const message = { id: newId(), parent, ...fields };
  chat.messages.push(message);
  chat.leaf = message.id;
  return message;
}

/**
 * What two tabs know of a conversation, as one: `mine` with the messages that only `stored` has, and
 * with those of `stored` that this tab has not made (`isMine`).
 */
export function merge(stored, mine, isMine) {
  const own = new Map(mine.messages.map((one) => [one.id, one]));
  const known = new Set(stored.messages.map((one) => one.id));
  const messages = stored.messages.map((one) => (own.has(one.id) && isMine(one.id) ? own.get(one.id) : one));
  return { ...mine, messages: [...messages, ...mine.messages.filter((one) => !known.has(one.id))] };
}
