// The page in a browser: arguments are the address of a server and the path of Chromium. With the
// environment variable PELTON_SCREENSHOTS, pictures of the page are written to that folder.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [, , address, executablePath] = process.argv;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PELTON_SCREENSHOTS;
const STORY = "Tell me a story about a little cat";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

const messages = (page) => page.locator(".message");
const last = (page) => page.locator(".message.assistant").last().locator(".body");
const ended = (page) => page.locator("#send").waitFor({ state: "visible" });

/** A page whose errors and requests to other servers fail the test. */
async function open(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => assert.ok(message.type() !== "error", message.text()));
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("request", (request) => {
    assert.ok(/^(data|blob):/.test(request.url()) || request.url().startsWith(address), request.url());
  });
  await page.goto(address);
  return page;
}

async function send(page, text) {
  await page.fill("#text", text);
  await page.press("#text", "Enter");
}

/** No violation of axe-core's rules. */
async function accessible(page, state) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => axe.run());
  assert.ok(passes.length > 10, "axe-core found next to nothing to check");
  const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(found, [], state);
}

/** Lets the page read this many bytes a second, so that an answer takes a time. */
async function slow(page, bytes) {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", {
    offline: false, latency: 0, downloadThroughput: bytes, uploadThroughput: -1,
  });
}

async function picture(page, name) {
  if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}.png` });
}

// types a question, and sees the answer grow
{
  const page = await open();
  await accessible(page, "an empty page");
  await slow(page, 20_000);
  await send(page, STORY);
  await page.locator(".message.busy").waitFor();
  await page.waitForFunction(() => document.querySelector(".busy .body")?.textContent.length > 10);
  const early = await last(page).textContent();
  await ended(page);
  const whole = await last(page).textContent();
  assert.ok(whole.startsWith(early.trim().slice(0, 5)) && whole.length > early.length, whole);
  assert.match(await page.locator(".stats").textContent(), /first token after [\d.]+ s, [\d.]+ tokens\/s/);
  await accessible(page, "a conversation");
  await slow(page, -1);

  // edits the question: the old one stays as a branch
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edited message").fill("What is 2 plus 3?");
  await page.keyboard.press("Enter");
  await page.locator(".message.assistant .stats").waitFor();
  await ended(page);
  assert.match(await last(page).textContent(), /5/);
  assert.equal(await messages(page).count(), 2);
  assert.match(await page.locator(".message.user .tools").textContent(), /2\/2/);
  await page.getByRole("button", { name: "Previous branch" }).click();
  assert.equal(await last(page).textContent(), whole);
  await page.getByRole("button", { name: "Next branch" }).click();

  // regenerates the answer
  await page.getByRole("button", { name: "Regenerate" }).click();
  await page.locator(".message.assistant .tools", { hasText: "2/2" }).waitFor();
  await ended(page);

  // finds the conversation after a reload, and by a search
  const kept = await page.locator("#messages").textContent();
  await page.reload();
  await messages(page).first().waitFor();
  assert.equal(await page.locator("#messages").textContent(), kept);
  await page.getByRole("button", { name: "New chat" }).click();
  await page.fill("#search", "plus 3");
  assert.equal(await page.locator("#chats li").count(), 1);
  await page.fill("#search", "no such word");
  assert.equal(await page.locator("#chats li").count(), 0);
  await page.fill("#search", "");

  // exports the conversations, deletes them, and imports them again
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  await page.getByRole("button", { name: /^Delete/ }).click();
  assert.equal(await page.locator("#chats li").count(), 0);
  await page.setInputFiles("#import-file", await file.path());
  await page.locator("#chats li").waitFor();
  await page.locator("#chats button").first().click();
  assert.equal(await page.locator("#messages").textContent(), kept);
  await page.context().close();
}

// stops an answer, and goes on after it
{
  const page = await open();
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Temperature").fill("1");
  await page.getByLabel("Probabilities of tokens").check();
  await accessible(page, "the settings");
  await page.getByRole("button", { name: "Settings" }).click();
  await slow(page, 20_000);
  await send(page, STORY);
  await page.waitForFunction(() => document.querySelector(".busy .body")?.textContent.length > 10);
  await page.getByRole("button", { name: "Stop" }).click();
  await ended(page);
  assert.equal(await page.locator("#status").textContent(), "The answer was stopped.");
  const stopped = await last(page).textContent();
  await page.waitForTimeout(200);
  assert.equal(await last(page).textContent(), stopped);
  assert.match(await last(page).locator("span").first().getAttribute("title"), /%/);
  await slow(page, -1);
  await send(page, "What is 2 plus 3?");
  await page.locator(".message").nth(3).locator(".stats").waitFor();
  await ended(page);
  await page.context().close();
}

// answers that a schema describes; a schema and a request that are wrong
{
  const page = await open();
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("JSON Schema").fill('{"type": "boolean"}');
  await send(page, "Is it true?");
  await page.locator(".message.assistant .stats").waitFor({ timeout: 20_000 }).catch(() => {});
  await ended(page);
  assert.match(await last(page).textContent(), /^(true|false)$/);
  await page.getByLabel("JSON Schema").fill("{");
  await send(page, "Again");
  assert.match(await page.locator("#status").textContent(), /JSON Schema is not valid/);
  await page.context().close();
}

// an answer cannot write HTML; Markdown is shown
{
  const page = await open();
  const text = "<img src=x onerror=alert(1)> **bold** `code`\n\n- one\n- two\n\n```\nlet a = 1;\n```\n\n" +
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n[link](javascript:alert(1)) [good](https://example.com)";
  const chunk = (choice) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`;
  const body = chunk({ delta: { reasoning_content: "Hm." } }) + chunk({ delta: { content: text } }) +
    chunk({ delta: { tool_calls: [{ index: 0, function: { name: "add", arguments: "{}" } }] } }) +
    "data: [DONE]\n\n";
  await page.route("**/v1/chat/completions", (route) =>
    route.fulfill({ contentType: "text/event-stream", body }));
  await send(page, "Show all");
  await page.locator(".body table").waitFor();
  await ended(page);
  const answer = page.locator(".message.assistant");
  assert.equal(await answer.locator("img").count(), 0);
  for (const [name, count] of [["strong", 1], ["li", 2], ["pre code", 1], ["td", 2], ["a", 1], ["details", 1]]) {
    assert.equal(await answer.locator(name).count(), count, name);
  }
  assert.match(await answer.textContent(), /add\({}\)/);
  await accessible(page, "Markdown");
  await page.context().close();
}

// the keyboard alone: a question, an edit, the panels
{
  const page = await open();
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const until = async (name) => {
    for (let i = 0; i < 40; i += 1) {
      await press("Tab");
      const text = await page.evaluate(() => document.activeElement.textContent.trim());
      if (text === name) return;
    }
    assert.fail(`the Tab key does not reach ${name}`);
  };
  await page.keyboard.type("What is 2 plus 3?");
  await press("Enter");
  await page.locator(".message.assistant .stats").waitFor();
  await ended(page);
  await until("Settings");
  await press("Enter");
  assert.ok(await page.locator("#settings").isVisible());
  await press("Enter");
  assert.ok(!(await page.locator("#settings").isVisible()));
  await until("Edit");
  await press("Enter", "Control+A");
  await page.keyboard.type("What is 3 plus 4?");
  await press("Enter");
  await page.locator(".message.user", { hasText: "3 plus 4" }).waitFor();
  await page.locator(".message.assistant .stats").waitFor();
  assert.match(await page.locator(".message.user .tools").textContent(), /2\/2/);
  await page.context().close();
}

// the list of all paths
{
  const page = await open();
  await page.goto(`${address}/docs`);
  assert.ok((await page.locator("h2").count()) > 20);
  await accessible(page, "/docs");
  await page.context().close();
}

// pictures, and the rules again in the dark and on a phone
for (const [name, options] of Object.entries({
  desktop: { viewport: { width: 1280, height: 800 } },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
})) {
  const page = await open(options);
  for (const text of [STORY, "What is 2 plus 3?"]) {
    await send(page, text);
    await page.locator(".message.user", { hasText: text }).waitFor();
    await ended(page);
  }
  await accessible(page, name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.ok(!wide, `${name}: the page is wider than the screen`);
  await picture(page, name);
  await page.getByRole("button", { name: "Settings" }).click();
  await accessible(page, `${name}, settings`);
  await picture(page, `${name}-settings`);
  await page.context().close();
}

await browser.close();
console.log("all checks passed");
