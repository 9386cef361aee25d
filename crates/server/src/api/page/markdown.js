"use strict";
// Markdown to elements. Text is only ever set as text, so an answer cannot write HTML.

const markdown = (() => {
  const element = (name, ...children) => {
    const node = document.createElement(name);
    node.append(...children);
    return node;
  };

  const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\s](?:[\s\S]{0,2000}?[^*\s])?)\*\*|\*([^*\s](?:[^*]*?[^*\s])?)\*|~~([\s\S]+?)~~|\[([^[\]\n]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>()]+)/;

  function inline(text, depth = 0) {
    const parts = [];
    while (text) {
      const found = depth < 8 && INLINE.exec(text);
      if (!found) {
        parts.push(text);
        break;
      }
      if (found.index) parts.push(text.slice(0, found.index));
      const [all, , code, strong, emphasis, struck, label, target, bare] = found;
      const inner = (content) => inline(content, depth + 1);
      if (code !== undefined) parts.push(element("code", code));
      else if (strong) parts.push(element("strong", ...inner(strong)));
      else if (emphasis) parts.push(element("em", ...inner(emphasis)));
      else if (struck) parts.push(element("s", ...inner(struck)));
      else parts.push(link(target || bare, label ? inner(label) : [bare]));
      text = text.slice(found.index + all.length);
    }
    return parts;
  }

  function link(target, content) {
    if (!/^(https?:|mailto:)/i.test(target)) return element("span", ...content);
    const node = element("a", ...content);
    node.href = target;
    node.target = "_blank";
    node.rel = "noopener noreferrer";
    return node;
  }

  function code(lines) {
    const node = element("pre", element("code", lines.join("\n")));
    const copy = element("button", "Copy");
    copy.type = "button";
    copy.addEventListener("click", () => {
      navigator.clipboard.writeText(lines.join("\n")).then(() => (copy.textContent = "Copied"));
    });
    node.append(copy);
    return node;
  }

  function table(rows) {
    const cells = (row) => row.replace(/^\s*\||\|\s*$/g, "").split("|").map((cell) => cell.trim());
    const line = (row, name) =>
      element("tr", ...cells(row).map((cell) => element(name, ...inline(cell))));
    return element(
      "table",
      element("thead", line(rows[0], "th")),
      element("tbody", ...rows.slice(2).map((row) => line(row, "td"))),
    );
  }

  function list(lines, pattern, name) {
    const items = [];
    for (const line of lines) {
      const found = pattern.exec(line);
      if (found && found[1].length < 2) items.push([line.slice(found[0].length)]);
      else items[items.length - 1].push(line.replace(/^( {1,4}|\t)/, ""));
    }
    return element(name, ...items.map((item) => element("li", ...blocks(item, true))));
  }

  const BULLET = /^(\s*)[-*+]\s+/;
  const NUMBER = /^(\s*)\d+[.)]\s+/;

  function blocks(lines, tight) {
    const out = [];
    let at = 0;
    const take = (test) => {
      const from = at;
      while (at < lines.length && test(lines[at], at - from)) at += 1;
      return lines.slice(from, at);
    };
    while (at < lines.length) {
      const line = lines[at];
      const fence = /^\s*(```+|~~~+)/.exec(line);
      const heading = /^(#{1,6})\s+(.*)$/.exec(line);
      if (!line.trim()) {
        at += 1;
      } else if (fence) {
        at += 1;
        out.push(code(take((next) => !next.trim().startsWith(fence[1]))));
        at += 1;
      } else if (heading) {
        at += 1;
        out.push(element(`h${Math.min(6, heading[1].length + 2)}`, ...inline(heading[2])));
      } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
        at += 1;
        out.push(element("hr"));
      } else if (line.startsWith(">")) {
        const quoted = take((next) => next.startsWith(">"));
        out.push(element("blockquote", ...blocks(quoted.map((q) => q.replace(/^>\s?/, "")))));
      } else if (BULLET.test(line) || NUMBER.test(line)) {
        const [pattern, name] = BULLET.test(line) ? [BULLET, "ul"] : [NUMBER, "ol"];
        const items = take((next, i) => i === 0 || pattern.test(next) || /^(\s{2,}|\t)\S/.test(next));
        out.push(list(items, pattern, name));
      } else if (line.includes("|") && /^[\s|:-]+$/.test(lines[at + 1] || "") && lines[at + 1].includes("-")) {
        out.push(table(take((next) => next.includes("|"))));
      } else {
        const text = take((next, i) => i === 0 ||
          (next.trim() && !/^\s*(```|~~~|#{1,6}\s|>)/.test(next) && !BULLET.test(next) && !NUMBER.test(next)));
        const content = inline(text.join("\n"));
        out.push(tight ? element("span", ...content) : element("p", ...content));
      }
    }
    return out;
  }

  return (text) => blocks(text.replace(/\r/g, "").split("\n"));
})();
