// Makes the page's Markdown library, ../../src/api/page/markdown-it.js, from the versions that
// package-lock.json pins: `npm ci --ignore-scripts && node bundle.mjs`. With the argument `--check`
// it compares the committed file instead.

import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const TARGET = new URL("../../src/api/page/markdown-it.js", import.meta.url);

const { outputFiles, metafile } = await build({
  stdin: { contents: 'export { default } from "markdown-it";', resolveDir: import.meta.dirname },
  absWorkingDir: import.meta.dirname,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});

/** The licence of each package, its copyright first; packages with the same text share it. */
function notices() {
  const names = new Set(Object.keys(metafile.inputs).flatMap((path) => /node_modules\/([^/]+)/.exec(path)?.[1] ?? []));
  const holders = new Map();
  for (const name of [...names].sort()) {
    const folder = new URL(`node_modules/${name}/`, import.meta.url);
    const { version } = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    assert.ok(file, `${name} has no licence file`);
    const words = readFileSync(new URL(file, folder), "utf8").split(/\n\s*\n/).map((part) => part.replace(/\s+/g, " ").trim());
    const from = words.findIndex((part) => part.startsWith("Copyright"));
    const text = words.slice(from + 1).filter(Boolean).join("\n\n");
    const all = holders.get(text) ?? [];
    holders.set(text, [...all, `${name} ${version}: ${words[from]}`]);
  }
  return [...holders].map(([text, all]) => `${all.join("\n")}\n\n${text}`).join("\n\n");
}

const banner = `/*! Made by crates/server/tests/node/bundle.mjs.\n\n${notices().replaceAll("*/", "* /")}\n*/\n`;
const made = banner + outputFiles[0].text;
if (process.argv[2] === "--check") {
  assert.ok(readFileSync(TARGET, "utf8") === made, "markdown-it.js is not what bundle.mjs makes");
  console.log("all checks passed");
} else {
  writeFileSync(TARGET, made);
}
