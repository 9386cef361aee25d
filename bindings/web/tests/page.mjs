// The page in headless Chromium. Arguments: the folder of the page, the path of Chromium, and as JSON the prompt
// and the tokens that the CPU makes of it, without and with constraints. PELTON_SCREENSHOTS names a folder for a picture.

import assert from "node:assert/strict";
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";

const [, , folder, executablePath, expectation] = process.argv;
const { prompt, texts, packages } = JSON.parse(expectation);
const { chromium } = createRequire(join(packages, "package.json"))("playwright-core");

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const server = createServer((request, response) => {
  const path = join(folder, request.url === "/" ? "index.html" : new URL(request.url, "http://host").pathname);
  if (!existsSync(path)) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
  createReadStream(path).pipe(response);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const address = `http://127.0.0.1:${server.address().port}/`;

// without the flag Chromium offers its software adapter to nobody
const args = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const browser = await chromium.launch({ executablePath, args });
const page = await browser.newPage({ viewport: { width: 900, height: 700 } });
page.setDefaultTimeout(300_000);
page.on("console", (message) => message.type() === "error" && console.log(`console: ${message.text()}`));
page.on("pageerror", (error) => assert.fail(error.message));

await page.goto(address);
await page.waitForFunction(() => /loaded in|error/.test(document.getElementById("status").outerHTML));
const status = await page.locator("#status").textContent();
assert.match(status, /loaded in/, status);
const bytes = statSync(join(folder, "pelton_web_bg.wasm")).size;
console.log(`${status}; ${(bytes / 1e6).toFixed(1)} MB of WebAssembly`);

// a conversation, and the figures below it
await page.fill("#text", "What is 2 plus 3?");
await page.press("#text", "Enter");
await page.waitForFunction(() => document.getElementById("speed").textContent !== "");
assert.match(await page.locator("#messages .assistant").textContent(), /5/);
console.log(await page.locator("#speed").textContent());
if (process.env.PELTON_SCREENSHOTS)
  await page.screenshot({ path: join(process.env.PELTON_SCREENSHOTS, "browser.png") });

// an answer at half the effort
await page.locator("#effort").fill("0.5");
await page.fill("#text", "What is 2 plus 3?");
await page.press("#text", "Enter");
await page.waitForFunction(() => document.querySelectorAll("#messages .assistant").length === 2);
await page.waitForFunction(() => !document.getElementById("send").hidden);
assert.match(await page.locator("#messages .assistant").nth(1).textContent(), /\w/);
await page.locator("#effort").fill("1");

// another turn, which is stopped
await page.fill("#text", "Tell me a story about a cat.");
await page.press("#text", "Enter");
await page.waitForFunction(() => document.querySelectorAll("#messages .assistant")[2]?.textContent.length > 10);
await page.click("#stop");
await page.waitForFunction(() => !document.getElementById("send").hidden);
const stopped = await page.locator("#messages .assistant").nth(2).textContent();

// the tokens of the CPU, from a worker of its own
const found = await page.evaluate(async ({ prompt, texts }) => {
  const worker = new Worker("worker.js", { type: "module" });
  return new Promise((resolve, reject) => {
    const all = [];
    worker.onmessage = ({ data }) => {
      if (data.kind === "error") return reject(new Error(data.text));
      if (data.kind === "ids") all.push(data.ids);
      if (all.length === texts.length) return resolve(all);
      const { ids, constraint } = texts[all.length];
      worker.postMessage({ kind: "tokens", prompt, options: { maxTokens: ids.length, constraint } });
    };
  });
}, { prompt, texts });
assert.deepEqual(found, texts.map(({ ids }) => ids));
assert.ok(stopped.length < 2000, stopped);

await browser.close();
server.close();
console.log("all checks passed");
