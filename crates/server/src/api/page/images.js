// Pictures for messages, as data: URLs.

import { button, element } from "./dom.js";

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
// The browser keeps few megabytes, so that a larger file is drawn again.
const LARGE = 700_000;
const SIDE = 2048;

function dataUrl(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

/** The picture of a file; throws if it is none. */
async function read(file) {
  const name = file.name || "The file";
  if (!KINDS.includes(file.type)) throw new Error(`${name} is no picture in PNG, JPEG, WebP, GIF or BMP`);
  if (file.size <= LARGE) return dataUrl(file);
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = element("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.toDataURL("image/jpeg", 0.9);
}

/** Pictures as elements, each with what is below it. */
export function pictures(urls, below = () => []) {
  const shown = urls.map((url, at) => {
    const image = element("img");
    image.src = url;
    image.alt = `Picture ${at + 1}`;
    return element("figure", "", image, ...below(at));
  });
  return element("div", "pictures", ...shown);
}

/** The pictures that wait for the next message, which a box shows. */
export class Waiting {
  #urls = [];
  #box;

  constructor(box) {
    this.#box = box;
  }

  get count() {
    return this.#urls.length;
  }

  /** Adds the pictures of files; throws if one is none. */
  async add(files) {
    for (const file of files) this.#urls.push(await read(file));
    this.#show();
  }

  /** Gives the pictures to a message. */
  take() {
    const urls = this.#urls;
    this.#urls = [];
    this.#show();
    return urls;
  }

  #show() {
    const remove = (at) => button(`Remove picture ${at + 1}`, () => {
      this.#urls.splice(at, 1);
      this.#show();
    }, { image: "close", bare: true });
    this.#box.hidden = this.#urls.length === 0;
    this.#box.replaceChildren(pictures(this.#urls, (at) => [remove(at)]));
  }
}
