// Pictures that are chosen, pasted and dropped in the page, and what a real model sees in them. The server
// has the built-in model that sees; `answers.json` has the answers of transformers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { address, ended, finish, last, open } from "./browser.mjs";

const samples = new URL("../../../../models/vision/samples/", import.meta.url);
const answers = JSON.parse(readFileSync(new URL("answers.json", samples))).pictures;

/** Puts files where a paste or a drop has them. */
async function deliver(page, kind, name, buffer) {
  await page.evaluate(({ kind, name, base64 }) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, { type: "image/png" }));
    const event = new Event(kind, { bubbles: true, cancelable: true });
    Object.defineProperty(event, kind === "paste" ? "clipboardData" : "dataTransfer", { value: data });
    document.getElementById("text").dispatchEvent(event);
  }, { kind, name, base64: buffer.toString("base64") });
}

/** Asks about a picture in a conversation of its own, and returns the answer. */
async function answer(sample, kind) {
  const page = await open();
  // the answers of the reference are the likeliest ones
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await page.getByLabel("Temperature").fill("0");
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await page.locator("#attach").waitFor();
  const buffer = readFileSync(new URL(sample.file, samples));
  if (kind === "choose") {
    await page.locator("#attach-file").setInputFiles([{ name: sample.file, mimeType: "image/png", buffer }]);
  } else {
    await deliver(page, kind, sample.file, buffer);
  }
  await page.locator("#pictures img").waitFor();
  await page.fill("#text", sample.asked);
  await page.press("#text", "Enter");
  await page.locator(".message.assistant .stats").waitFor();
  await ended(page);
  // Markdown takes the number of an answer such as "53." for that of a list
  const text = await last(page).evaluate((body) => {
    const list = body.querySelector("ol");
    return list ? `${list.start}.` : body.textContent.trim();
  });
  await page.context().close();
  return text;
}

for (const [i, sample] of answers.slice(0, 16).entries()) {
  const kind = ["choose", "paste", "drop"][i % 3];
  assert.equal(await answer(sample, kind), sample.answer, `${kind}: ${sample.file}`);
}
await finish();
