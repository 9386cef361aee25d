// As much of a document as the page's Markdown needs, so that its tests need no browser.

class Node {
  parent = null;
  childNodes = [];

  get lastChild() {
    return this.childNodes.at(-1);
  }

  get textContent() {
    return this.childNodes.map((one) => one.textContent).join("");
  }

  append(...nodes) {
    for (const one of nodes) {
      if (one instanceof Node) one.remove();
      const node = one instanceof Node ? one : Object.assign(new Text(), { textContent: String(one) });
      for (const each of node instanceof Fragment ? [...node.childNodes] : [node]) {
        each.remove();
        each.parent = this;
        this.childNodes.push(each);
      }
    }
  }

  remove() {
    if (!this.parent) return;
    const all = this.parent.childNodes;
    all.splice(all.lastIndexOf(this), 1);
    this.parent = null;
  }
}

class Text extends Node {
  #text = "";

  get textContent() {
    return this.#text;
  }

  set textContent(text) {
    this.#text = text;
  }
}

class Fragment extends Node {}

class Element extends Node {
  attributes = {};

  constructor(name) {
    super();
    this.name = name;
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  addEventListener() {}
}

globalThis.document = {
  createElement: (name) => new Element(name),
  createElementNS: (_, name) => new Element(name),
  createDocumentFragment: () => new Fragment(),
};

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const SHOWN = { className: "class", href: "href", start: "start", title: "title" };

/** The HTML of nodes. Buttons are left out, and what only frames a table or code. */
export function html(nodes) {
  return nodes.map((node) => {
    if (node instanceof Text) return escape(node.textContent);
    if (node.name === "button" || node.className === "bar") return "";
    const inner = html(node.childNodes);
    if (["scroll", "code"].includes(node.className)) return inner;
    const shown = Object.entries(SHOWN).filter(([name]) => node[name] !== undefined);
    const attributes = shown.map(([name, word]) => ` ${word}="${node[name]}"`).join("");
    return ["br", "hr"].includes(node.name) ? `<${node.name}>` : `<${node.name}${attributes}>${inner}</${node.name}>`;
  }).join("");
}

/** How deep elements are nested. */
export function depth(nodes) {
  let deepest = 0;
  const left = nodes.map((node) => [node, 1]);
  while (left.length) {
    const [node, at] = left.pop();
    deepest = Math.max(deepest, at);
    left.push(...node.childNodes.map((child) => [child, at + 1]));
  }
  return deepest;
}
