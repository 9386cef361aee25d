// The page: messages in, text as it comes, and its speed.

const by = (id) => document.getElementById(id);
const [status, list, form, text, send, stop, clear, speed] =
  ["status", "messages", "form", "text", "send", "stop", "clear", "speed"].map(by);
const sliders = { temperature: by("temperature"), effort: by("effort") };

const roles = [];
const texts = [];
let answer; // the element of the answer that comes
const worker = new Worker("worker.js", { type: "module" });

function add(role, content) {
  const item = document.createElement("li");
  item.className = role;
  item.textContent = content;
  list.append(item);
  return item;
}

function setBusy(busy) {
  send.hidden = busy;
  stop.hidden = !busy;
  clear.disabled = busy;
}

/** The answer is complete: it belongs to the conversation. */
function end() {
  if (!answer) return;
  roles.push("assistant");
  texts.push(answer.textContent);
  answer = undefined;
  setBusy(false);
}

const receive = {
  ready({ summary, noEffort, seconds }) {
    status.textContent = `${summary}; loaded in ${seconds.toFixed(1)} s`;
    send.disabled = false;
    sliders.effort.disabled = Boolean(noEffort);
    sliders.effort.title = noEffort ?? "The share of the model that each token reads";
    text.focus();
  },
  text({ text }) {
    answer.textContent += text;
  },
  done({ stats: { promptTokens, tokens, firstToken, decode } }) {
    const rate = tokens > 1 ? `, ${((tokens - 1) / decode).toFixed(1)} tokens/s` : "";
    speed.textContent =
      `${promptTokens} tokens of prompt, first token after ${Math.round(1000 * firstToken)} ms, ${tokens} tokens${rate}`;
    end();
  },
  error({ text }) {
    status.textContent = text;
    status.className = "error";
    end();
  },
};

worker.addEventListener("message", ({ data }) => receive[data.kind](data));
worker.addEventListener("error", (event) => receive.error({ text: event.message || "The worker could not be loaded." }));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (answer || send.disabled) return;
  roles.push("user");
  texts.push(text.value);
  add("user", text.value);
  text.value = "";
  answer = add("assistant", "");
  setBusy(true);
  const options = Object.fromEntries(Object.entries(sliders).map(([name, slider]) => [name, Number(slider.value)]));
  worker.postMessage({ kind: "chat", roles, texts, options });
});

stop.addEventListener("click", () => worker.postMessage({ kind: "stop" }));

clear.addEventListener("click", () => {
  roles.length = texts.length = 0;
  list.replaceChildren();
  speed.textContent = "";
});

for (const slider of Object.values(sliders))
  slider.addEventListener("input", () => (slider.nextElementSibling.value = slider.value));
