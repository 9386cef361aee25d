// Markdown to elements, from the tokens of markdown-it. Any text renders: HTML stays text, nesting
// is bounded, and a text that cannot be parsed is shown as it is.

import { copier, element } from "./dom.js";
import { BLOCK, LINES, math } from "./math.js";
import MarkdownIt from "./markdown-it.js";

// What is nested deeper is text: layout of elements is recursive in browsers.
const DEEPEST = 24;

const md = new MarkdownIt({ linkify: true, breaks: true });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
md.use(math);
// The rest of a block that is nested too deep is one paragraph.
md.block.ruler.before("table", "deepest", (state, start, last, silent) => {
  if (silent || state.level < DEEPEST) return false;
  state.push("paragraph_open", "p", 1).map = [start, last];
  const inline = state.push("inline", "", 0);
  inline.content = state.getLines(start, last, state.blkIndent, false).trim();
  inline.children = [];
  state.push("paragraph_close", "p", -1);
  state.line = last;
  return true;
});

const NAMES = new Set(["p", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s"]);

function link(target, title) {
  if (!/^(https?:|mailto:)/i.test(target)) return element("span");
  const node = element("a");
  node.href = target;
  node.target = "_blank";
  node.rel = "noopener noreferrer";
  if (title) node.title = title;
  return node;
}

function code(text, language) {
  const bar = element("div", "bar", element("span", "", language), copier(() => text));
  const pre = element("pre", "", element("code", "", text));
  pre.tabIndex = 0;
  return element("div", "code", bar, pre);
}

/** The element that a token opens; `null` if it has none of its own. */
function opened(token) {
  if (token.type === "link_open") return link(token.attrGet("href") ?? "", token.attrGet("title"));
  // the page's own headings are above those of an answer
  if (token.type === "heading_open") return element(`h${Math.min(6, Number(token.tag[1]) + 2)}`);
  if (token.hidden || !NAMES.has(token.tag)) return null;
  const node = element(token.tag);
  const side = /text-align:(right|center)/.exec(token.attrGet("style") ?? "");
  if (side) node.className = side[1];
  const start = token.attrGet("start");
  if (start !== null) node.start = Number(start);
  return node;
}

/** The nodes of a token without content of other tokens. */
function leaf(token) {
  switch (token.type) {
    case "text":
    case "text_special":
    case "html_inline":
    case "html_block":
      return [token.content];
    case "softbreak":
    case "hardbreak":
      return [element("br")];
    case "code_inline":
      return [element("code", "", token.content)];
    case "code_block":
      return [code(token.content.replace(/\n$/, ""), "")];
    case "fence":
      return [code(token.content.replace(/\n$/, ""), token.info.trim().split(/\s+/)[0])];
    case "hr":
      return [element("hr")];
    case "math":
      return [element("span", "math", token.content)];
    case "math_block":
      return [element("div", "math", token.content)];
    case "image": {
      // pictures are not loaded: the address would learn of the reader
      const node = link(token.attrGet("src") ?? "", "");
      node.append(token.content || "image");
      return [node];
    }
    default:
      return [];
  }
}

/** The sign of a task in front of an item's text. */
function task(tokens, at) {
  const first = tokens[at].children?.[0];
  const found = tokens[at - 2]?.type === "list_item_open" && first?.type === "text" && /^\[([ xX])\] /.exec(first.content);
  if (!found) return null;
  first.content = first.content.slice(found[0].length);
  const done = found[1] !== " ";
  const node = element("span", "task", done ? "☑ " : "☐ ");
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", done ? "done" : "to do");
  return node;
}

/** Appends the nodes of tokens to a parent. */
function build(parent, tokens) {
  const open = [parent];
  const push = (node) => {
    const shown = node && open.length < 3 * DEEPEST;
    if (shown) open.at(-1).append(node);
    open.push(shown ? node : open.at(-1));
  };
  const visit = (token) => {
    if (token.type === "table_open") {
      // a wide table scrolls by itself
      const frame = element("div", "scroll");
      frame.tabIndex = 0;
      push(frame);
    }
    if (token.nesting === 1) push(opened(token));
    else if (token.nesting === -1) open.pop();
    else open.at(-1).append(...leaf(token));
    if (token.type === "table_close") open.pop();
  };
  tokens.forEach((token, at) => {
    if (token.type !== "inline") return visit(token);
    const sign = task(tokens, at);
    if (sign) open.at(-1).append(sign);
    token.children.forEach(visit);
  });
}

/** The nodes and tokens of a text; the text as it is and no tokens if it cannot be parsed. */
function render(text) {
  const node = document.createDocumentFragment();
  try {
    const tokens = md.parse(text, {});
    build(node, tokens);
    return { nodes: [...node.childNodes], tokens };
  } catch (error) {
    console.warn("Markdown is shown as text:", error);
    return { nodes: [element("p", "plain", text)], tokens: [] };
  }
}

/** The nodes of a text. */
export const markdown = (text) => render(text).nodes;

/** A text that grows in an element: only its last block is made again. */
export class Growing {
  #node;
  // what is before this character of the text are the element's first nodes, which stay
  #from = 0;
  #kept = 0;

  constructor(node) {
    this.#node = node;
  }

  update(whole) {
    const text = whole.replace(/\r\n?/g, "\n").slice(this.#from);
    const { nodes, tokens } = render(text);
    while (this.#node.childNodes.length > this.#kept) this.#node.lastChild.remove();
    this.#node.append(...nodes);
    const blocks = tokens.filter((token) => token.level === 0 && token.nesting !== -1 && token.map);
    const lines = text.split("\n");
    const settled = settle(blocks, lines);
    this.#from += lines.slice(0, settled).join("\n").length + (settled ? 1 : 0);
    this.#kept += blocks.filter((token) => token.map[0] < settled).length;
  }
}

/**
 * The line of a growing text before which nothing changes any more. The last block may still change,
 * and decides about the one before it until the lines that show its kind are complete.
 */
function settle(blocks, lines) {
  const last = blocks.at(-1);
  if (!last) return 0;
  const [from, to] = last.map;
  const shows = { table_open: 2, math_block: to - from }[last.type] ?? 1;
  if (from + shows >= lines.length) return 0;
  // what follows the beginning of a formula may become part of it
  const isFormula = (line) => blocks.some(({ type, map }) => type === "math_block" && map[0] <= line && line < map[1]);
  for (let line = Math.max(0, from - LINES); line < from; line += 1) {
    if (BLOCK.test(lines[line]) && !isFormula(line)) return blocks.findLast(({ map }) => map[0] <= line)?.map[0] ?? 0;
  }
  return from;
}
