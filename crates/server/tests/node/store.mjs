// The page's conversations, without a browser: two tabs, damaged records, records of earlier versions.

import assert from "node:assert/strict";

const PAGE = "../../src/api/page";
const { add, begin, branches, check, descend, pathTo } = await import(`${PAGE}/conversation.js`);
const { Store, memory } = await import(`${PAGE}/store.js`);

const texts = (chat) => pathTo(chat, chat.leaf).map((one) => one.content);
const ask = (store, chat, text) => {
  store.own(add(chat, chat.leaf, { role: "user", content: text }));
  chat.title ||= text;
  assert.ok(store.save(chat));
};
const key = (chat) => `pelton-chat-${chat.id}`;
const titles = (store) => store.list().map((one) => one.title).sort();

// two tabs that know nothing of each other keep both conversations
{
  const storage = memory();
  const [a, b] = [new Store(storage), new Store(storage)];
  ask(a, begin(), "from A");
  ask(b, begin(), "from B");
  assert.deepEqual(titles(new Store(storage)), ["from A", "from B"]);
}

// two tabs in one conversation: no message is lost, whoever writes last
{
  const storage = memory();
  const a = new Store(storage);
  const one = begin();
  ask(a, one, "first");
  const b = new Store(storage);
  const other = b.list()[0];
  const answer = add(one, one.leaf, { role: "assistant", content: "gro", state: "running" });
  a.own(answer);
  a.save(one);
  b.own(add(other, other.leaf, { role: "assistant", content: "from B" }));
  b.save(other);
  answer.content = "grown";
  delete answer.state;
  a.save(one);
  b.save(other);
  const contents = new Store(storage).list()[0].messages.map((message) => message.content);
  assert.deepEqual(contents.sort(), ["first", "from B", "grown"]);
  // a tab that reads again sees the other's, in the same object
  b.read(key(one));
  assert.equal(b.list()[0], other);
  assert.ok(other.messages.some((message) => message.content === "grown"));
  a.remove(one);
  b.read(key(one));
  assert.deepEqual(b.list(), []);
}

// edits and new answers are branches
{
  const chat = begin();
  const question = add(chat, null, { role: "user", content: "q" });
  const first = add(chat, question.id, { role: "assistant", content: "a1" });
  add(chat, question.id, { role: "assistant", content: "a2" });
  assert.deepEqual(texts(chat), ["q", "a2"]);
  add(chat, first.id, { role: "user", content: "more" });
  assert.deepEqual(texts(chat), ["q", "a1", "more"]);
  assert.equal(branches(chat).get(question.id).length, 2);
  assert.equal(descend(chat, first.id), chat.leaf);
  assert.deepEqual(check(JSON.parse(JSON.stringify(chat))), chat);
}

// what an earlier version kept is read once, in its order
const FORMER = [
  { id: "2-2", title: "new", leaf: 3, messages: [{ role: "user", content: "q", parent: null }, { role: "assistant", content: "a", parent: 0, stats: "s" },
    { role: "assistant", content: "b", parent: 0 }, { role: "user", content: "r", parent: 1 }] },
  { id: "1-1", title: "old", leaf: 0, messages: [{ role: "user", content: "p", parent: null, tokens: [{ text: "p", top: [["p", -0.1]] }] }] },
];
{
  const storage = memory();
  storage.setItem("pelton-chats", JSON.stringify([...FORMER, { id: "bad", messages: 5 }]));
  const store = new Store(storage);
  assert.deepEqual(store.list().map((one) => one.title), ["new", "old"]);
  assert.deepEqual(texts(store.list()[0]), ["q", "a", "r"]);
  assert.equal(store.damaged.size, 1);
  assert.equal(storage.getItem("pelton-chats"), null);
  assert.equal(new Store(storage).list().length, 2);
  // a tab of the earlier version was still open and went on
  ask(store, store.list()[0], "of the new version");
  const more = [...FORMER[1].messages, { role: "assistant", content: "of the old version", parent: 0 }];
  storage.setItem("pelton-chats", JSON.stringify([FORMER[0], { ...FORMER[1], messages: more }, { id: "bad", messages: 5 }]));
  const both = new Store(storage);
  const all = both.list().flatMap((one) => one.messages.map((each) => each.content));
  assert.ok(all.includes("of the new version") && all.includes("of the old version"));
  assert.deepEqual([all.length, both.damaged.size], [7, 1]);
}
{
  const storage = memory();
  storage.setItem("pelton-chats", "{not JSON");
  const store = new Store(storage);
  assert.equal(store.damaged.size, 1);
  assert.match(store.export(), /not JSON/);
}

// Damaged conversations are aside with a reason, can be exported, and hide no other.
const message = (fields) => ({ id: "a", parent: null, role: "user", content: "x", ...fields });
const BAD = {
  "cycle of one": [{ messages: [message({ parent: "a" })] }, /does not answer an earlier message/],
  "cycle of two": [{ messages: [message({ parent: "b" }), message({ id: "b", parent: "a" })] }, /earlier message/],
  "cycle of numbers": [{ messages: [{ role: "user", content: "x", parent: 0 }], leaf: 0 }, /earlier message/],
  "no such leaf": [{ messages: [message()], leaf: 99 }, /last message does not exist/],
  "leaf of a wrong type": [{ messages: [message()], leaf: {} }, /last message/],
  "calls of a wrong type": [{ messages: [message({ calls: {} })] }, /calls of message 1/],
  "a call of a wrong type": [{ messages: [message({ calls: [{ name: 1 }] })] }, /calls of message 1/],
  "tokens of a wrong type": [{ messages: [message({ tokens: [{ text: "a" }] })] }, /tokens of message 1/],
  "text of a wrong type": [{ messages: [message({ content: 1 })] }, /no text/],
  "stats of a wrong type": [{ messages: [message({ stats: {} })] }, /stats of message 1/],
  "state of a wrong type": [{ messages: [message({ state: "odd" })] }, /state of message 1/],
  "role of a wrong type": [{ messages: [message({ role: "system" })] }, /role "system"/],
  "no message": [{ messages: [null] }, /not an object/],
  "twice the same": [{ messages: [message(), message()] }, /id of another/],
  "title of a wrong type": [{ title: {}, messages: [] }, /title/],
  "no messages": [{ messages: 1 }, /list of messages/],
  "another id": [{ id: "other", messages: [] }, /another than that of its record/],
};
for (const [name, [fields, reason]] of Object.entries(BAD)) {
  const storage = memory();
  ask(new Store(storage), begin(), "good");
  const text = JSON.stringify({ id: "bad", title: "bad", leaf: null, ...fields });
  storage.setItem("pelton-chat-bad", text);
  const store = new Store(storage);
  assert.deepEqual(titles(store), ["good"], name);
  assert.match(store.damaged.get("pelton-chat-bad").reason, reason, name);
  assert.equal(JSON.parse(store.export()).length, 2, name);
  store.discard("pelton-chat-bad");
  assert.deepEqual([store.damaged.size, storage.length], [0, 1], name);
  // a file with it: the good ones are taken, the reason is told
  if (name === "another id") continue;
  const file = JSON.stringify([JSON.parse(text), FORMER[0]]);
  const { added, refused } = store.import(file);
  assert.equal(added, 1, name);
  assert.match(refused.join(), reason, name);
}
{
  const storage = memory();
  storage.setItem("pelton-chat-x", "{");
  assert.equal(new Store(storage).damaged.size, 1);
  assert.throws(() => new Store(storage).import("{"), /not JSON/);
  assert.throws(() => new Store(storage).import("{}"), /not a list/);
}

// pictures of messages are data: URLs, and nothing else is shown as one
{
  const chat = begin();
  const shown = add(chat, null, { role: "user", content: "", images: ["data:image/png;base64,AAAA"] });
  assert.deepEqual(check(chat).messages[0].images, shown.images);
  for (const images of ["data:image/png;base64,AAAA", ["https://example.com/a.png"], [5]]) {
    shown.images = images;
    assert.throws(() => check(chat), /images of message 1/);
  }
}

// what is exported is imported again as it was, once
{
  const store = new Store(memory());
  ask(store, begin(), "a <b>");
  ask(store, begin(), "b");
  const other = new Store(memory());
  assert.equal(other.import(store.export()).added, 2);
  assert.equal(other.import(store.export()).added, 0);
  assert.equal(other.export(), store.export());
}

// a full storage: probabilities of tokens are left out first, and nothing stored is lost
{
  const storage = memory();
  const { setItem } = storage;
  const room = 2000;
  storage.setItem = (name, text) => {
    if (text.length > room) throw new Error("QuotaExceededError");
    setItem(name, text);
  };
  const store = new Store(storage);
  const chat = begin();
  const tokens = Array.from({ length: 100 }, () => ({ text: "a", top: [["a", -1]] }));
  store.own(add(chat, null, { role: "assistant", content: "short", tokens }));
  assert.ok(store.save(chat));
  assert.equal(new Store(storage).list()[0].messages[0].tokens, undefined);
  store.own(add(chat, chat.leaf, { role: "user", content: "x".repeat(room) }));
  assert.ok(!store.save(chat));
  assert.deepEqual(texts(new Store(storage).list()[0]), ["short"]);
  setItem("pelton-chats", JSON.stringify([FORMER[0], { id: "large", title: "x".repeat(room), messages: [] }]));
  // what has no room stays where it was
  storage.setItem = (name, text) => {
    if (name === "pelton-chat-large") throw new Error("QuotaExceededError");
    setItem(name, text);
  };
  const more = new Store(storage);
  assert.ok(titles(more).includes("new"));
  assert.equal(JSON.parse(storage.getItem("pelton-chats")).length, 1);
}
console.log("all checks passed");
