// Formulas in TeX, which stay as they are written: Markdown would take their signs for its own.

const PAIRS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];
// A formula that is not closed within these is none.
const CHARACTERS = 4000;
export const LINES = 60;
/** What begins a formula that may go over several lines. */
export const BLOCK = /^ {0,3}(\\\[|\$\$)/;

const opening = (text, at) => PAIRS.find(([open]) => text.startsWith(open, at));

/** Where the formula that begins at `from` ends, or -1. */
function closing(text, from, close) {
  const end = text.slice(from, from + CHARACTERS).indexOf(close);
  return end < 0 ? -1 : from + end;
}

function inline(state, silent) {
  const { src, pos } = state;
  if (src[pos] !== "$" && src[pos] !== "\\") return false;
  const pair = opening(src, pos);
  if (!pair) return false;
  const [open, close] = pair;
  const from = pos + open.length;
  const end = closing(src, from, close);
  const text = src.slice(from, end);
  if (end < 0 || !text.trim()) return false;
  // prices are no formulas: "$5 or $6"
  if (open === "$" && (/^\s|\s$|\n/.test(text) || /[\w$]/.test(src[end + 1] ?? "") || /\w/.test(src[pos - 1] ?? ""))) {
    return false;
  }
  if (!silent) state.push("math", "", 0).content = text;
  state.pos = end + close.length;
  return true;
}

function block(state, start, last, silent) {
  const line = (at) => state.src.slice(state.bMarks[at] + state.tShift[at], state.eMarks[at]).trim();
  if (state.sCount[start] - state.blkIndent >= 4) return false;
  const pair = opening(line(start), 0);
  if (!pair || pair[0] === "$" || pair[0] === "\\(") return false;
  const lines = [line(start).slice(2)];
  let at = start;
  while (!lines.at(-1).endsWith(pair[1])) {
    at += 1;
    if (at >= last || state.sCount[at] < state.blkIndent || lines.length === LINES) return false;
    lines.push(line(at));
  }
  const text = lines.join("\n").slice(0, -2);
  // what follows a formula on its line is text: then it is an inline one
  if (!text.trim() || text.includes(pair[1])) return false;
  if (silent) return true;
  const token = state.push("math_block", "", 0);
  token.content = text.trim();
  token.map = [start, at + 1];
  state.line = at + 1;
  return true;
}

/** Adds formulas to markdown-it. */
export function math(md) {
  md.inline.ruler.before("escape", "math", inline);
  md.block.ruler.before("fence", "math_block", block, { alt: ["paragraph", "blockquote", "list"] });
}
