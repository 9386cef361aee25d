// Pictures in the page: chosen, pasted, dropped and refused ones, for a model that sees.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible, address, ask, ended, finish, messages, open } from "./browser.mjs";
import { fake } from "./fake.mjs";

const PNG = readFileSync(new URL("../../../image/tests/fixtures/pictures/rgb.png", import.meta.url));
const URL_OF_PNG = `data:image/png;base64,${PNG.toString("base64")}`;
const file = (name, mimeType, buffer = PNG) => ({ name, mimeType, buffer });

/** Lets the server's models see. */
async function seeing(page) {
  await page.route("**/v1/models", async (route) => {
    const list = await (await route.fetch()).json();
    for (const one of list.data) one.capabilities = ["completion", "vision"];
    await route.fulfill({ json: list });
  });
  await page.reload();
  await page.locator("#attach").waitFor();
}

const server = await fake(address);

// a model that reads text only takes none
{
  const page = await open(undefined, server.address);
  assert.ok(await page.locator("#attach").isHidden());
  await page.context().close();
}

{
  const page = await open(undefined, server.address);
  await seeing(page);
  await page.locator("#attach-file").setInputFiles([file("a.png", "image/png"), file("b.png", "image/png")]);
  await page.locator("#pictures img").nth(1).waitFor();
  await accessible(page, "pictures that wait");
  await page.getByRole("button", { name: "Remove picture 2" }).click();
  await page.locator("#attach-file").setInputFiles([file("c.svg", "image/svg+xml")]);
  await page.locator("#status.wrong", { hasText: "c.svg is no picture" }).waitFor();
  await ask(page, "A short one?");
  const [picture, text] = server.asked.at(-1).messages[0].content;
  assert.deepEqual(picture, { type: "image_url", image_url: { url: URL_OF_PNG } });
  assert.deepEqual(text, { type: "text", text: "A short one?" });
  assert.ok(await page.locator("#pictures").isHidden());

  // the picture stays with its message, in later requests and after a reload
  await page.reload();
  await page.locator(".message.user .pictures img").waitFor();
  await accessible(page, "a message with a picture");
  await ask(page, "And a short one without?");
  const [first, , second] = server.asked.at(-1).messages;
  assert.equal(first.content[0].image_url.url, URL_OF_PNG);
  assert.equal(second.content, "And a short one without?");

  // pasted and dropped ones; a message may be a picture alone
  await page.evaluate((url) => {
    const bytes = Uint8Array.from(atob(url.split(",")[1]), (c) => c.charCodeAt(0));
    for (const [kind, key] of [["paste", "clipboardData"], ["drop", "dataTransfer"]]) {
      const data = new DataTransfer();
      data.items.add(new File([bytes], "d.png", { type: "image/png" }));
      const event = new Event(kind, { bubbles: true, cancelable: true });
      Object.defineProperty(event, key, { value: data });
      document.getElementById("text").dispatchEvent(event);
    }
  }, URL_OF_PNG);
  await page.locator("#pictures img").nth(1).waitFor();
  await page.locator("#send").click();
  await messages(page).nth(5).waitFor();
  await ended(page);
  const alone = server.asked.at(-1).messages.at(-1).content;
  assert.deepEqual(alone.map(({ type }) => type), ["image_url", "image_url"]);

  // an edited message keeps its picture
  await page.locator(".message.user").first().hover();
  await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edited message").fill("Another short one?");
  await page.keyboard.press("Enter");
  await page.locator(".message.user", { hasText: "Another" }).waitFor();
  await ended(page);
  const edited = server.asked.at(-1).messages[0].content;
  assert.equal(edited[0].image_url.url, URL_OF_PNG);
  assert.equal(edited[1].text, "Another short one?");
  await page.context().close();
}

// a large picture is drawn again before it is kept
{
  const page = await open(undefined, server.address);
  await seeing(page);
  const large = await page.evaluate(async () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [3000, 1000];
    const pen = canvas.getContext("2d");
    const noise = pen.createImageData(3000, 1000);
    for (let i = 0; i < noise.data.length; i += 1) noise.data[i] = (i * 2654435761) >>> 24;
    pen.putImageData(noise, 0, 0);
    return canvas.toDataURL("image/png").split(",")[1];
  });
  await page.locator("#attach-file").setInputFiles([file("large.png", "image/png", Buffer.from(large, "base64"))]);
  const image = page.locator("#pictures img");
  await image.waitFor();
  const [kind, width] = await image.evaluate(async (one) => {
    await one.decode();
    return [one.src.slice(0, 15), one.naturalWidth];
  });
  assert.ok(kind === "data:image/png;" || width === 2048, `${kind} ${width}`);
  await page.context().close();
}

server.close();
await finish();
