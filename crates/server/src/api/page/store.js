// Conversations in the browser's storage. Each has a record of its own, so that tabs do not overwrite
// those of each other; a record that is damaged stays as it is, aside.

import { check, merge, pathTo } from "./conversation.js";

const PREFIX = "pelton-chat-";
// where earlier versions kept all of them
const FORMER = "pelton-chats";

export class Store {
  #storage;
  // the messages that this tab has made or changed: its version of them is the newest
  #mine = new Set();
  /** Conversations by id. */
  chats = new Map();
  /** Damaged records by key: {text, reason}. */
  damaged = new Map();

  /** `storage` is the browser's, or has its methods. */
  constructor(storage) {
    this.#storage = storage;
    this.#migrate();
    for (const key of this.#keys()) this.read(key);
  }

  #keys() {
    const keys = Array.from({ length: this.#storage.length }, (_, at) => this.#storage.key(at));
    return keys.filter((key) => key.startsWith(PREFIX));
  }

  #migrate() {
    const text = this.#storage.getItem(FORMER);
    if (text === null) return;
    let all;
    try {
      all = JSON.parse(text);
    } catch {
      all = null;
    }
    if (!Array.isArray(all)) all = [text];
    // the old record makes room for the new ones; what does not fit goes back
    this.#storage.removeItem(FORMER);
    const left = all.filter((one, at) => {
      const key = PREFIX + (typeof one?.id === "string" && one.id ? one.id : `former-${at}`);
      // the newest was the first
      const record = one && typeof one === "object" ? { ...one, updated: one.updated ?? all.length - at } : one;
      try {
        return !this.#write(key, JSON.stringify(this.#joined(key, check(record))));
      } catch {
        return this.#storage.getItem(key) === null && !this.#write(key, JSON.stringify(record));
      }
    });
    if (left.length) this.#write(FORMER, JSON.stringify(left));
  }

  /** A conversation with the messages that its stored record has in addition. */
  #joined(key, chat) {
    const text = this.#storage.getItem(key);
    if (text === null) return chat;
    try {
      return merge(check(JSON.parse(text)), chat, (one) => this.#mine.has(one));
    } catch {
      // a damaged record of the same id: the other one replaces it
      return chat;
    }
  }

  #write(key, text) {
    try {
      this.#storage.setItem(key, text);
      return true;
    } catch {
      return false;
    }
  }

  /** Reads a record again, which another tab may have changed. Returns the id of its conversation. */
  read(key) {
    if (!key.startsWith(PREFIX)) return null;
    const id = key.slice(PREFIX.length);
    this.#take(key, id);
    return id;
  }

  #take(key, id) {
    const text = this.#storage.getItem(key);
    this.damaged.delete(key);
    if (text === null) {
      this.chats.delete(id);
      return;
    }
    try {
      const chat = check(JSON.parse(text));
      if (chat.id !== id) throw new Error("its id is another than that of its record");
      const here = this.chats.get(id);
      if (!here) {
        this.chats.set(id, chat);
        return;
      }
      // a branch that the other tab has continued is continued here
      const goesOn = pathTo(chat, chat.leaf).some((one) => one.id === here.leaf);
      const { title, updated } = chat;
      const { messages } = merge(chat, here, (one) => this.#mine.has(one));
      // the object stays the same, because an answer may be growing in it
      Object.assign(here, { title, updated, messages, leaf: goesOn ? chat.leaf : here.leaf });
    } catch (error) {
      this.chats.delete(id);
      this.damaged.set(key, { text, reason: error.message });
    }
  }

  /** All conversations, the newest first. */
  list() {
    return [...this.chats.values()].sort((a, b) => b.updated - a.updated);
  }

  /** Notes that this tab has made or changed a message. */
  own(message) {
    this.#mine.add(message.id);
  }

  /** Writes a conversation, joined with what other tabs have written. Says whether there was room. */
  save(chat) {
    const key = PREFIX + chat.id;
    // messages stay the same objects, because an answer may be growing in one
    const text = this.#storage.getItem(key);
    Object.assign(chat, this.#joined(key, chat));
    this.chats.set(chat.id, chat);
    if (this.#write(key, JSON.stringify(chat))) return true;
    // the probabilities of tokens are the largest part, and can be missed
    return this.#write(key, JSON.stringify(chat, (name, value) => (name === "tokens" ? undefined : value)));
  }

  /** Removes a conversation. */
  remove(chat) {
    this.chats.delete(chat.id);
    this.#storage.removeItem(PREFIX + chat.id);
  }

  /** Removes a damaged record. */
  discard(key) {
    this.damaged.delete(key);
    this.#storage.removeItem(key);
  }

  /** All records as a file: conversations, and damaged ones as they are. */
  export() {
    const broken = [...this.damaged.values()].map(({ text }) => {
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    });
    return JSON.stringify([...this.list(), ...broken], null, 1);
  }

  /** Adds the conversations of a file that are not here. Returns how many, and why others were refused. */
  import(text) {
    let all;
    try {
      all = JSON.parse(text);
    } catch (error) {
      throw new Error(`it is not JSON: ${error.message}`);
    }
    if (!Array.isArray(all)) throw new Error("it is not a list of conversations");
    const refused = [];
    let added = 0;
    all.forEach((one, at) => {
      try {
        const chat = check(one);
        if (this.chats.has(chat.id)) return;
        chat.updated ||= Date.now();
        if (!this.save(chat)) throw new Error("the browser has no room for it");
        added += 1;
      } catch (error) {
        const title = typeof one?.title === "string" && one.title ? `“${one.title}”` : `conversation ${at + 1}`;
        refused.push(`${title}: ${error.message}`);
      }
    });
    return { added, refused };
  }
}

/** A storage that lasts as long as the page, where the browser allows none. */
export function memory() {
  const all = new Map();
  return {
    get length() { return all.size; },
    key: (at) => [...all.keys()][at] ?? null,
    getItem: (key) => all.get(key) ?? null,
    setItem: (key, text) => void all.set(key, text),
    removeItem: (key) => void all.delete(key),
  };
}
