// The worker that owns the model. The page sends { kind: "chat", roles, texts, options }, { kind: "tokens",
// prompt, options } and { kind: "stop" }. Answers are { kind: "ready", summary, noEffort, seconds },
// { kind: "text", text }, { kind: "done", stats }, { kind: "ids", ids } and { kind: "error", text }.

import init, { Options, load } from "./pelton_web.js";

/** What this browser lacks, as a sentence; nothing if it has all. */
function missing() {
  if (!navigator.gpu) return "This browser has no WebGPU in workers. Chrome 144 or later has it.";
  if (!WebAssembly.Suspending)
    return "This browser cannot suspend WebAssembly (JSPI). Chrome 137 and Firefox 153 can.";
}

// wgpu 30 knows no subgroups in browsers and asks for none (gfx-rs/wgpu#10146), so they are added here.
function askForSubgroups() {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = function (descriptor = {}) {
    if (!this.features.has("subgroups"))
      return Promise.reject(new Error("This GPU has no subgroups in this browser, which every kernel needs."));
    const requiredFeatures = [...(descriptor.requiredFeatures ?? []), "subgroups"];
    return requestDevice.call(this, { ...descriptor, requiredFeatures });
  };
}

// `constraint` is { kind, source }, with a kind of Options.constrain
function filled({ constraint, ...values }) {
  const options = Object.assign(new Options(), values);
  if (constraint) options.constrain(constraint.kind, constraint.source);
  return options;
}

async function chat(model, { roles, texts, options }) {
  const onText = (text) => postMessage({ kind: "text", text });
  const { promptTokens, tokens, firstToken, decode } = await model.chat(roles, texts, filled(options), onText);
  postMessage({ kind: "done", stats: { promptTokens, tokens, firstToken, decode } });
}

async function tokens(model, { prompt, options }) {
  postMessage({ kind: "ids", ids: [...(await model.tokens(prompt, filled(options)))] });
}

function failed(error) {
  postMessage({ kind: "error", text: error?.message ?? String(error) });
}

/** Loads the model, and runs the requests that come one after the other. */
async function start() {
  const lack = missing();
  if (lack) throw new Error(lack);
  askForSubgroups();
  const begun = performance.now();
  await init();
  const model = await load();
  let last = Promise.resolve();
  addEventListener("message", ({ data }) => {
    if (data.kind === "stop") model.stop();
    else last = last.then(() => (data.kind === "chat" ? chat : tokens)(model, data)).catch(failed);
  });
  const seconds = (performance.now() - begun) / 1000;
  postMessage({ kind: "ready", summary: model.summary(), noEffort: model.noEffort, seconds });
}

start().catch(failed);
