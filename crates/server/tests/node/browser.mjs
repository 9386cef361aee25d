// A browser for the tests of the page. Arguments of a test are the address of a server and the path
// of Chromium.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const [, , address, executablePath] = process.argv;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };

export const messages = (page) => page.locator(".message");
export const last = (page) => page.locator(".message.assistant").last().locator(".body");
export const ended = (page) => page.locator("#send").waitFor({ state: "visible" });
export const chats = (page) => page.locator("#chats .title");

/** A page whose errors and requests to other servers fail the test. `allowed` errors do not. */
export async function tab(context, at = address, allowed = /^$/) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("console", (message) => assert.ok(message.type() !== "error" || allowed.test(message.text()), message.text()));
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("request", (request) => {
    assert.ok(/^(data|blob):/.test(request.url()) || request.url().startsWith(at), request.url());
  });
  await page.goto(at);
  await page.locator("#model option").first().waitFor({ state: "attached" });
  return page;
}

/** A page in a browser without any other. */
export async function open(options = DESKTOP, at = address, allowed = /^$/) {
  return tab(await browser.newContext(options), at, allowed);
}

export async function send(page, text) {
  await page.fill("#text", text);
  await page.press("#text", "Enter");
}

/** Sends a question and waits for the whole answer. */
export async function ask(page, text) {
  const count = await page.locator(".message.assistant").count();
  await send(page, text);
  await page.locator(".message.assistant .tools").nth(count).waitFor();
  await ended(page);
}

/** No violation of axe-core's rules. */
export async function accessible(page, state) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => axe.run());
  assert.ok(passes.length > 10, "axe-core found next to nothing to check");
  const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(found, [], state);
}

/** Ends a test. */
export async function finish() {
  await browser.close();
  console.log("all checks passed");
}
