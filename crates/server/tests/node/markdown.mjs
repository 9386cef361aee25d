// The page's Markdown, without a browser. Expectations are the examples of CommonMark and of GitHub's
// tables and task lists; for random texts, the words of markdown-it's own HTML.

import assert from "node:assert/strict";
import { depth, html } from "./dom.mjs";

const PAGE = "../../src/api/page";
const { markdown, Growing } = await import(`${PAGE}/markdown.js`);
const { default: MarkdownIt } = await import(`${PAGE}/markdown-it.js`);

const CASES = [
  // reported: these stopped the page
  ["  - a", "<ul><li>a</li></ul>"],
  ["   1. a", "<ol><li>a</li></ol>"],
  ["- a\n      - b", "<ul><li>a<br>- b</li></ul>"],
  // ordered lists keep their numbers
  ["1. a\n\n2. b\n\n3. c", "<ol><li><p>a</p></li><li><p>b</p></li><li><p>c</p></li></ol>"],
  ["7. a\n8. b", '<ol start="7"><li>a</li><li>b</li></ol>'],
  ["1. a\n\n   ```\n   x\n   ```\n2. b", "<ol><li><p>a</p><pre><code>x</code></pre></li><li><p>b</p></li></ol>"],
  ["1. a\n\ntext\n\n2. b", '<ol><li>a</li></ol><p>text</p><ol start="2"><li>b</li></ol>'],
  // emphasis and escapes
  ["__bold__ _italic_ ***both*** ~~no~~", "<p><strong>bold</strong> <em>italic</em> <em><strong>both</strong></em> <s>no</s></p>"],
  ["\\*not\\* snake_case_name 2*3*4", "<p>*not* snake_case_name 2<em>3</em>4</p>"],
  ["`` a`b `` &copy; &#35;", "<p><code>a`b</code> © #</p>"],
  // lines of a paragraph stay lines
  ["one\ntwo", "<p>one<br>two</p>"],
  // tasks, tables
  ["- [ ] a\n- [x] b", '<ul><li><span class="task">☐ </span>a</li><li><span class="task">☑ </span>b</li></ul>'],
  ["| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | `x|` |", "<table><thead><tr><th>a</th>" +
    '<th class="center">b</th><th class="right">c</th></tr></thead><tbody><tr><td>1</td><td class="center">2</td>' +
    '<td class="right">`x</td></tr></tbody></table>'],
  // headings are below those of the page
  ["# a\n## b ##", "<h3>a</h3><h4>b</h4>"],
  ["> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"],
  // formulas stay as written, prices are none
  ["\\(a_1 * b_1\\) and $x_i*y_i$", '<p><span class="math">a_1 * b_1</span> and <span class="math">x_i*y_i</span></p>'],
  ["\\[\na\n- b\n= c\n\\]", '<div class="math">a\n- b\n= c</div>'],
  ["so\n$$\nx^2\n$$\nthen", '<p>so</p><div class="math">x^2</div><p>then</p>'],
  ["$5 or $6, a$b$c, \\(open", "<p>$5 or $6, a$b$c, (open</p>"],
  // addresses: only those of the web and of mail
  ["https://example.com/a_b_c.", '<p><a href="https://example.com/a_b_c">https://example.com/a_b_c</a>.</p>'],
  ["[a](https://example.com 'b')", '<p><a href="https://example.com" title="b">a</a></p>'],
  ["[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x)", "<p>[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x)</p>"],
  ["[a](/etc) [b](ftp://x)", "<p><span>a</span> <span>b</span></p>"],
  ["![cat](https://example.com/cat.png)", '<p><a href="https://example.com/cat.png">cat</a></p>'],
  // HTML is text
  ["<img src=x onerror=alert(1)>\n\n<script>a</script> <!-- b -->", "<p>&lt;img src=x onerror=alert(1)&gt;</p><p>&lt;script&gt;a&lt;/script&gt; &lt;!-- b --&gt;</p>"],
  ["", ""],
];
for (const [text, expected] of CASES) assert.equal(html(markdown(text)), expected, text);

// the language of code is named
{
  const [frame] = markdown("```rust ignore\nfn a() {}\n```");
  assert.equal(frame.childNodes[0].childNodes[0].textContent, "rust");
  assert.equal(html([frame]), "<pre><code>fn a() {}</code></pre>");
}

/** Milliseconds of the processor that an action takes: other programs do not count. */
function time(action) {
  const { user, system } = process.cpuUsage();
  action();
  const after = process.cpuUsage();
  return (after.user - user + after.system - system) / 1000;
}

// Texts that made parsers slow or overflow the stack: bounded, and no word is lost.
const HOSTILE = {
  quotes: ">".repeat(20_000), "quotes and a word": `${"> ".repeat(3000)}word`,
  lists: "+ ".repeat(3000), "lists and a word": `${"+ ".repeat(3000)}word`, mixed: `${"> - ".repeat(2000)}word`,
  backticks: Array.from({ length: 300 }, (_, i) => `${"`".repeat(i + 1)}a`).join(" "),
  nested: Array.from({ length: 1000 }, (_, i) => `${"  ".repeat(i % 30)}- item ${i}`).join("\n"),
  deeper: Array.from({ length: 1000 }, (_, i) => `${"  ".repeat(i)}- item ${i}`).join("\n"),
  stars: `${"*".repeat(20_000)}a${"*".repeat(20_000)}`, emphasis: "*a ".repeat(20_000), strong: "a**b".repeat(20_000),
  brackets: "[".repeat(20_000), links: "[a](".repeat(10_000), images: "![[]()".repeat(10_000),
  formulas: "\\(".repeat(20_000), dollars: "$a ".repeat(20_000), displays: "\\[\n".repeat(10_000),
  lazy: `${"> ".repeat(100)}${"a\n".repeat(10_000)}`, rows: `|a|b|\n|-|-|\n${"|x|y|\n".repeat(5000)}`,
  pipes: `${"a|".repeat(300)}\n${"-|".repeat(300)}\n${"x\n".repeat(5000)}`,
  addresses: "http://a.b/".repeat(5000), mails: `${"a.b".repeat(20_000)}@`, entities: "&a;".repeat(20_000),
  code: `\`\`\`\n${"let a = 1;\n".repeat(20_000)}`, references: "[a]: b\n".repeat(10_000), tildes: "~~a ".repeat(20_000),
};
for (const [name, text] of Object.entries(HOSTILE)) {
  let nodes;
  const taken = time(() => (nodes = markdown(text)));
  assert.ok(taken < 3000, `${name}: ${taken} ms`);
  assert.ok(depth(nodes) < 100, `${name}: elements are nested ${depth(nodes)} deep`);
}
for (const name of ["quotes and a word", "lists and a word", "mixed"]) {
  assert.ok(html(markdown(HOSTILE[name])).includes("word"), `${name}: a word is lost`);
}
assert.ok(html(markdown(HOSTILE.deeper)).includes("item 999"));

// A parser that fails leaves the text.
{
  const { parse } = MarkdownIt.prototype;
  MarkdownIt.prototype.parse = () => { throw new RangeError("Maximum call stack size exceeded"); };
  const { warn } = console;
  console.warn = () => {};
  assert.equal(html(markdown("a *b*")), '<p class="plain">a *b*</p>');
  console.warn = warn;
  MarkdownIt.prototype.parse = parse;
}

/** Random numbers from a seed (mulberry32). */
function random(seed) {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}
const PIECES = ["a", "b c", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "- ", "+ ", "* ", "1. ", "12) ", "> ", ">", "# ", "###", "`", "``", "```",
  "```js\n", "~~~", "*", "**", "_", "__", "~~", "[", "](", ")", "!", "|", "|-|-|\n", "---", "===", "\\", "<b>", "</b>", "&amp;", "&", "$", "$$",
  "\\(", "\\)", "\\[", "\\]", "http://x.y", "[ ] ", "[x] ", "é", "😀", "\0", "\u2028", "x_y", "9", ":", "\"", "<a href='javascript:x'>"];
const words = (text) => text.replace(/<[^>]*>/g, "").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"')
  .replace(/&amp;/g, "&").replace(/\s+/g, "");
// the library alone, without formulas and with pictures as their texts
const oracle = new MarkdownIt({ linkify: true, breaks: true });
oracle.renderer.rules.image = (tokens, at) => oracle.utils.escapeHtml(tokens[at].content || "image");
oracle.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
const shown = (nodes) => words(html(nodes).replace(/<span class="task">.*?<\/span>/g, ""));

let slowest = 0;
const next = random(1);
for (let i = 0; i < 20_000; i += 1) {
  const text = Array.from({ length: 1 + next(40) }, () => PIECES[next(PIECES.length)]).join("");
  let nodes;
  slowest = Math.max(slowest, time(() => (nodes = markdown(text))));
  assert.ok(!nodes.some((node) => node.className === "plain"), JSON.stringify(text));
  if (!/[$\\]|\[[ xX]\]/.test(text)) assert.equal(shown(nodes), words(oracle.render(text)), JSON.stringify(text));
}
assert.ok(slowest < 500, `a random text takes ${slowest} ms`);

// A text that grows, cut anywhere, ends as the whole one. Definitions of references are the exception:
// they act on blocks before them.
for (let i = 0; i < 2000; i += 1) {
  const text = Array.from({ length: 1 + next(40) }, () => PIECES[next(PIECES.length)]).join("");
  if (text.includes("]:")) continue;
  const node = document.createElement("div");
  const growing = new Growing(node);
  for (let end = 0; end < text.length; end += 1 + next(6)) growing.update(text.slice(0, end));
  growing.update(text);
  assert.equal(html(node.childNodes), html(markdown(text)), JSON.stringify(text));
}

// A list of 1,000 nested lines is one block, which is made again as a whole.
{
  const taken = time(() => markdown(HOSTILE.nested));
  assert.ok(taken < 600, `${taken} ms`);
}

// Long answers: what is complete is not made again.
{
  const text = "A paragraph of *some* words.\n\n- an item\n- another\n\n".repeat(2000);
  const node = document.createElement("div");
  const growing = new Growing(node);
  const taken = time(() => {
    for (let end = 0; end < text.length; end += 200) growing.update(text.slice(0, end));
  });
  assert.ok(taken < 5000, `an answer of ${text.length} characters takes ${taken} ms`);
}
console.log("all checks passed");
