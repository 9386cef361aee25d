// Elements of the page. Text is only ever set as text, so nothing that a model writes becomes HTML.

export const $ = (id) => document.getElementById(id);

/** An element with a class and children, which are elements or texts. */
export function element(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** The icon that `index.html` defines under a name. */
export function icon(name) {
  const SVG = "http://www.w3.org/2000/svg";
  const node = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  node.setAttribute("aria-hidden", "true");
  node.append(use);
  return node;
}

/** A button with an icon, or none; `bare` shows the icon alone, and the label to screen readers. */
export function button(label, act, { image = "", bare = false } = {}) {
  const node = document.createElement("button");
  node.type = "button";
  if (image) node.append(icon(image));
  if (bare) {
    node.setAttribute("aria-label", label);
    node.title = label;
  } else {
    node.append(element("span", "", label));
  }
  node.addEventListener("click", act);
  return node;
}

/** Copies a text; throws where the browser does not allow it. */
async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // a page that came neither over HTTPS nor from this machine has the old way only
  const field = element("textarea", "hidden");
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (!copied) throw new Error("the browser does not allow it");
}

/** A button that copies a text. */
export function copier(text) {
  const node = button("Copy", async () => {
    const label = node.querySelector("span");
    try {
      await copy(text());
      label.textContent = "Copied";
    } catch {
      label.textContent = "Not allowed";
    }
    setTimeout(() => (label.textContent = "Copy"), 2000);
  }, { image: "copy" });
  return node;
}
