// The page in a browser, with answers of the built-in model: see `browser.mjs` for the arguments. With
// the environment variable PELTON_SCREENSHOTS, pictures of the page are written to that folder.

import assert from "node:assert/strict";
import { DESKTOP, PHONE, accessible, address, ask, chats, ended, finish, last, messages, open, send } from "./browser.mjs";
import { fake } from "./fake.mjs";

const PICTURES = process.env.PELTON_SCREENSHOTS;
const STORY = "Tell me a story about a little cat";

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
  assert.match(await page.locator("#demonstration").textContent(), /demonstration/);
  await slow(page, 20_000);
  await send(page, STORY);
  await page.locator(".message.busy").waitFor();
  await page.waitForFunction(() => document.querySelector(".busy .body")?.textContent.length > 10);
  const early = await last(page).textContent();
  await ended(page);
  const whole = await last(page).textContent();
  assert.ok(whole.startsWith(early.trim().slice(0, 5)) && whole.length > early.length, whole);
  assert.match(await page.locator(".stats").textContent(), /^[\d.]+ tokens\/s, first token after [\d.]+ s$/);
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
  assert.equal(await chats(page).count(), 1);
  await page.fill("#search", "no such word");
  assert.equal(await chats(page).count(), 0);
  await page.fill("#search", "");

  // exports the conversations, deletes them, and imports them again
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  await page.getByRole("button", { name: /^Delete/ }).click();
  assert.equal(await chats(page).count(), 0);
  await page.setInputFiles("#import-file", await file.path());
  await chats(page).waitFor();
  await chats(page).first().click();
  assert.equal(await page.locator("#messages").textContent(), kept);
  await page.context().close();
}

// stops an answer, and goes on after it
{
  const page = await open();
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await page.getByLabel("Temperature").fill("1");
  await page.getByLabel("Probabilities of tokens").check();
  await accessible(page, "the settings");
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await slow(page, 20_000);
  await send(page, STORY);
  await page.waitForFunction(() => document.querySelector(".busy .body")?.textContent.length > 10);
  await page.getByRole("button", { name: "Stop" }).click();
  await ended(page);
  assert.match(await page.locator(".notice").textContent(), /The answer was stopped/);
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
  await page.getByRole("button", { name: "Settings", exact: true }).click();
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

/** Conversations of earlier days, so that the list is as after some use. */
function former() {
  const DAY = 86_400_000;
  const titles = [["Three names for a small boat", 1], ["Why is the sky blue?", 1], ["Translate a letter to French", 3],
    ["Explain binary search", 5], ["A birthday poem", 40]];
  titles.forEach(([title, days], at) => {
    const id = `former-${at}`;
    const messages = [{ id: "0", parent: null, role: "user", content: title }];
    const chat = { id, title, updated: Date.now() - days * DAY, leaf: "0", messages };
    localStorage.setItem(`pelton-chat-${id}`, JSON.stringify(chat));
  });
}

// pictures, and the rules again in the dark and on a phone
const server = await fake(address);
for (const [name, options] of Object.entries({ desktop: DESKTOP, dark: { ...DESKTOP, colorScheme: "dark" }, phone: PHONE })) {
  const page = await open(options, server.address);
  await page.evaluate(former);
  await page.reload();
  await page.locator("#model option").first().waitFor({ state: "attached" });
  await ask(page, "Make a plan to run a model here");
  assert.ok((await page.locator(".message.assistant li").count()) === 5);
  await accessible(page, name);
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.ok(!isWide, `${name}: the page is wider than the screen`);
  await picture(page, name);
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await accessible(page, `${name}, settings`);
  await picture(page, `${name}-settings`);
  await page.getByRole("button", { name: "Close settings" }).click();
  if (name === "phone") {
    await page.getByRole("button", { name: "Chats", exact: true }).click();
    await accessible(page, "the list on a phone");
    await picture(page, "phone-chats");
  }
  await page.context().close();
}
server.close();
await finish();
