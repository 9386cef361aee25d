// The page keeps what is written in it: several tabs, reloads, answers that break, damaged records,
// and texts of all kinds. Answers come from a server that the test scripts; see `browser.mjs` for the
// arguments.

import assert from "node:assert/strict";
import { PHONE, accessible, address, ask, browser, chats, ended, finish, last, messages, open, send, tab } from "./browser.mjs";
import { fake } from "./fake.mjs";

const server = await fake(address);
const context = () => browser.newContext({ viewport: { width: 1280, height: 800 } });
const notice = (page) => page.locator(".notice");
const press = (page, name) => page.getByRole("button", { name, exact: true }).last().click();
const grown = (page, length) =>
  page.waitForFunction((least) => document.querySelector(".busy .body")?.textContent.length > least, length);
const FAILED = /Failed to load resource/;

// two tabs, opened before either asks: both conversations stay, and each tab sees the other's
{
  const both = await context();
  const a = await tab(both, server.address);
  const b = await tab(both, server.address);
  await ask(a, "short, from A");
  await chats(b).filter({ hasText: "from A" }).waitFor();
  await ask(b, "short, from B");
  await a.waitForFunction(() => document.querySelectorAll("#chats .title").length === 2);
  await a.reload();
  await messages(a).first().waitFor();
  assert.match(await messages(a).first().textContent(), /from A/);
  assert.deepEqual((await chats(a).allTextContents()).sort(), ["short, from A", "short, from B"]);
  // an answer in one tab grows in the other, which says so
  await chats(b).filter({ hasText: "from A" }).click();
  await send(a, "slow");
  await b.locator(".notice", { hasText: "Another tab" }).waitFor();
  await b.waitForFunction(() => document.querySelector(".message.last .body")?.textContent.length > 100);
  await press(a, "Stop");
  await b.locator(".notice", { hasText: "stopped" }).waitFor();
  // deleting in one tab closes the conversation in the other
  await a.getByRole("button", { name: "Delete short, from A" }).click();
  await b.locator(".welcome").waitFor();
  assert.equal(await chats(b).count(), 1);
  await both.close();
}

// a reload during an answer: question and answer so far are there, and the answer can go on
{
  const page = await tab(await context(), server.address);
  await send(page, "slow and long");
  await grown(page, 60);
  const early = await last(page).textContent();
  await page.reload();
  await notice(page).waitFor();
  assert.match(await notice(page).textContent(), /closed during this answer/);
  assert.match(await page.locator(".message.user").textContent(), /slow and long/);
  const kept = await last(page).textContent();
  assert.ok(kept.startsWith(early.trim()), `${early} is not the beginning of ${kept}`);
  await press(page, "Continue");
  await page.locator(".message.last .body", { hasText: "and more" }).waitFor();
  await ended(page);
  assert.ok((await last(page).textContent()).startsWith(kept.trim()));
  const { messages: sent } = server.asked.at(-1);
  assert.deepEqual([sent.length, sent[1].role, sent[1].content.trim()], [2, "assistant", kept.trim()]);
  // a text that is not sent stays too
  await page.fill("#text", "not sent");
  await page.reload();
  assert.equal(await page.inputValue("#text"), "not sent");
  await page.context().close();
}

// who reads an earlier place stays there when the answer grows and ends; the next question leads to the end
{
  const page = await tab(await context(), server.address);
  for (const text of ["a plan", "a second plan"]) await ask(page, text);
  await send(page, "slow");
  await grown(page, 30);
  await page.evaluate(() => (document.getElementById("messages").scrollTop = 100));
  await grown(page, 120);
  await page.keyboard.press("Escape");
  await ended(page);
  const top = () => page.evaluate(() => document.getElementById("messages").scrollTop);
  assert.equal(await top(), 100);
  await ask(page, "short");
  assert.ok((await top()) > 300);
  await page.context().close();
}

// while an answer grows, others cannot be made, and all branches stay
{
  const page = await tab(await context(), server.address);
  await ask(page, "short");
  await send(page, "slow");
  await grown(page, 30);
  const buttons = page.getByRole("button", { name: /^(Regenerate|Edit|Retry|Continue)$/ });
  for (const one of await buttons.all()) assert.ok(await one.isDisabled());
  assert.equal(await buttons.count(), 3);
  // another conversation can be read; the answer goes on
  await press(page, "New chat");
  await page.locator(".welcome").waitFor();
  await chats(page).first().click();
  await grown(page, 120);
  await page.keyboard.press("Escape");
  await ended(page);
  await page.getByRole("button", { name: "Regenerate" }).first().click();
  await page.locator(".message.assistant .count", { hasText: "2/2" }).waitFor();
  await ended(page);
  await press(page, "Previous branch");
  assert.equal(await messages(page).count(), 4);
  assert.match(await last(page).textContent(), /word0/);
  await page.context().close();
}

// an error, a connection that breaks, and an answer that is cut
{
  const page = await tab(await context(), server.address, FAILED);
  await send(page, "nothing");
  await notice(page).waitFor();
  assert.match(await notice(page).textContent(), /The answer failed: the fake server has no answer\.Retry/);
  await accessible(page, "an error");
  await press(page, "Retry");
  await page.waitForFunction(() => !document.querySelector(".busy"));
  await notice(page).waitFor();
  assert.equal(await messages(page).count(), 2);
  await send(page, "broken");
  await page.locator(".notice.wrong", { hasText: /connection to the server is lost|ended the answer/ }).last().waitFor();
  assert.match(await last(page).textContent(), /word4/);
  await press(page, "Continue");
  await page.locator(".message.last .body", { hasText: "and more" }).waitFor();
  await ended(page);
  await ask(page, "cut");
  assert.match(await notice(page).last().textContent(), /reached the maximum of tokens/);
  // messages without text are not sent
  assert.ok(server.asked.at(-1).messages.every((one) => one.content));
  await ask(page, "short");
  assert.match(await page.locator(".message.last .stats").textContent(), /^first token after [\d.]+ s$/);
  await page.context().close();
}

// damaged conversations are named, hide no other, and can be exported and deleted
{
  const page = await tab(await context(), server.address);
  await ask(page, "short and good");
  await page.evaluate(() => {
    const message = (fields) => ({ role: "assistant", content: "x", parent: null, ...fields });
    const set = (id, fields) => localStorage.setItem(`pelton-chat-${id}`, JSON.stringify({ id, title: id, leaf: null, ...fields }));
    set("cycle", { messages: [message({ id: "a", parent: "a" })], leaf: "a" });
    set("leaf", { messages: [message()], leaf: 99 });
    set("calls", { messages: [message({ calls: {} })] });
    localStorage.setItem("pelton-chat-json", "{");
    // of an earlier version, with texts that stopped it
    const texts = ["+ ".repeat(3000), ">".repeat(20_000), "  - a", "*".repeat(50_000)];
    localStorage.setItem("pelton-chats", JSON.stringify([{ id: "former", title: "former", leaf: 3,
      messages: texts.map((content, at) => message({ content, parent: at ? at - 1 : null })) }]));
  });
  await page.reload();
  await chats(page).nth(1).waitFor();
  assert.deepEqual(await chats(page).allTextContents(), ["short and good", "former"]);
  assert.equal(await page.locator(".damaged").count(), 4);
  assert.match(await page.locator(".damaged").first().textContent(), /damaged: .+\./);
  await accessible(page, "damaged conversations");
  await chats(page).nth(1).click();
  assert.equal(await messages(page).count(), 4);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.locator(".damaged").first().getByRole("button", { name: "Export" }).click(),
  ]);
  assert.ok(await file.path());
  await page.locator(".damaged").first().getByRole("button", { name: "Delete" }).click();
  assert.equal(await page.locator(".damaged").count(), 3);
  await press(page, "Undo");
  assert.equal(await page.locator(".damaged").count(), 4);
  // a file with a bad one: the good one is taken, the reason is said
  const two = [{ id: "n", title: "imported", leaf: 0, messages: [{ role: "user", content: "<b>hi</b>", parent: null }] },
    { id: "m", title: "bad", leaf: 0, messages: [{ role: "user", content: "x", parent: 0 }] }];
  await page.setInputFiles("#import-file", { name: "a.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(two)) });
  await page.locator("#status", { hasText: "1 conversation imported. Refused: “bad”: message 1" }).waitFor();
  await chats(page).filter({ hasText: "imported" }).click();
  assert.match(await notice(page).textContent(), /no answer yet/);
  await page.context().close();
}

// a conversation is renamed, deleted, and comes back
{
  const page = await tab(await context(), server.address);
  await ask(page, "short");
  await page.getByRole("button", { name: "Rename short" }).click();
  await page.getByLabel("Name of the conversation").fill("A better <name>");
  await page.keyboard.press("Enter");
  assert.deepEqual(await chats(page).allTextContents(), ["A better <name>"]);
  await page.getByRole("button", { name: "Delete A better <name>" }).click();
  assert.equal(await chats(page).count(), 0);
  await press(page, "Undo");
  assert.equal(await messages(page).count(), 2);
  await page.reload();
  assert.deepEqual(await chats(page).allTextContents(), ["A better <name>"]);
  await page.context().close();
}

// the key is forgotten with the tab, unless it is remembered
{
  const page = await tab(await context(), server.address);
  const stored = () => page.evaluate(() => JSON.stringify({ ...localStorage }));
  await page.evaluate(() => localStorage.setItem("pelton-settings", JSON.stringify({ key: "former-secret", system: "Be kind." })));
  await page.reload();
  await press(page, "Settings");
  assert.equal(await page.inputValue("#key"), "former-secret");
  assert.equal(await page.inputValue("#system"), "Be kind.");
  assert.ok(!(await stored()).includes("secret"));
  await page.fill("#key", "new-secret");
  await page.locator("#key").blur();
  await page.reload();
  assert.equal(await page.inputValue("#key"), "new-secret");
  assert.ok(!(await stored()).includes("secret"));
  await press(page, "Settings");
  await page.getByLabel("Remember the key").check();
  assert.ok((await stored()).includes("new-secret"));
  await page.getByLabel("Remember the key").uncheck();
  assert.ok(!(await stored()).includes("secret"));
  await page.context().close();
}

// Markdown is shown; an answer cannot write HTML, and no text stops the page
{
  const page = await open(undefined, server.address);
  await ask(page, "a plan");
  const answer = page.locator(".message.last");
  const expected = { strong: 1, "ol > li": 3, "ul > li": 2, "pre code": 1, td: 6, "td.right": 2, blockquote: 1, ".math": 1, ".task": 2 };
  for (const [name, count] of Object.entries(expected)) assert.equal(await answer.locator(name).count(), count, name);
  await accessible(page, "Markdown");
  await ask(page, "xss");
  for (const name of ["img", "script", "iframe", "svg[onload]", ".body b"]) {
    assert.equal(await page.locator(`#messages ${name}`).count(), 0, name);
  }
  assert.deepEqual(await answer.locator("a").evaluateAll((all) => all.map((one) => one.href)),
    ["https://example.com/", "https://example.com/d.png"]);
  assert.match(await answer.textContent(), /<img src=x onerror=alert\(1\)>.*<b>add<\/b>\({}\)/s);
  await send(page, "hostile");
  await page.locator(".message.last .body", { hasText: "end" }).waitFor();
  await ended(page);
  await page.reload();
  assert.equal(await messages(page).count(), 6);
  await page.context().close();
}

// on a phone every target has at least 44 by 44 pixels
{
  const page = await open(PHONE, server.address);
  const small = async (state) => {
    const found = await page.evaluate(() => [...document.querySelectorAll("button, select, input, textarea, summary")].flatMap((node) => {
      const target = node.type === "checkbox" ? node.closest("label") : node;
      const { width, height } = target.getBoundingClientRect();
      const isShown = width > 1 && height > 1 && getComputedStyle(node).opacity !== "0";
      return isShown && (width < 43.9 || height < 43.9) ? [`${target.outerHTML.slice(0, 80)}: ${width} x ${height}`] : [];
    }));
    assert.deepEqual(found, [], state);
  };
  await small("an empty page");
  await ask(page, "a plan");
  await ask(page, "xss");
  await small("messages");
  // a tap on an older message shows its buttons, and does nothing else
  const older = page.locator(".message.user").first();
  const copy = older.getByRole("button", { name: "Copy" });
  const opacity = () => copy.evaluate((node) => Number(getComputedStyle(node).opacity));
  assert.equal(await opacity(), 0);
  await older.locator(".body").tap();
  await page.waitForFunction((node) => getComputedStyle(node).opacity === "1", await copy.elementHandle());
  await small("an older message");
  await page.getByRole("button", { name: "Edit" }).first().tap();
  await small("an edit");
  await press(page, "Cancel");
  await press(page, "Regenerate");
  await page.locator(".count", { hasText: "2/2" }).waitFor();
  await ended(page);
  await small("branches");
  await press(page, "Settings");
  await small("settings");
  await press(page, "Close settings");
  await press(page, "Chats");
  await small("the list");
  await page.getByRole("button", { name: /^Rename/ }).tap();
  await small("a name");
  await page.context().close();
}

server.close();
await finish();
