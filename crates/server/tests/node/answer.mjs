// The page's reading of streams, without a browser: any cut of the bytes, errors, figures.

import assert from "node:assert/strict";

const { ask, get, speed } = await import("../../src/api/page/answer.js");

/** Answers the next request with pieces of bytes; an error in them breaks the connection. */
function serve(pieces, { status = 200, type = "text/event-stream" } = {}) {
  globalThis.fetch = async () => new Response(new ReadableStream({
    async pull(controller) {
      const piece = pieces.shift();
      if (piece === undefined) controller.close();
      else if (piece instanceof Error) controller.error(piece);
      else controller.enqueue(piece);
    },
  }), { status, headers: { "content-type": type } });
}
const bytes = (text) => new TextEncoder().encode(text);
const event = (value, end = "\n\n") => `data: ${JSON.stringify(value)}${end}`;
const delta = (fields, reason = null) => event({ choices: [{ index: 0, delta: fields, finish_reason: reason }] });
async function read(pieces, options) {
  serve(pieces, options);
  const message = { content: "" };
  let count = 0;
  const ended = await ask(message, {}, {}, new AbortController().signal, () => { count += 1; });
  return { message, count, ended };
}

// the same answer, whatever the cut: within a character, a line, an event
const WHOLE = `: a comment\n\n${delta({ role: "assistant", content: "" })}${delta({ reasoning_content: "Hm" })}${delta({ content: "a é 😀" })}` +
  delta({ tool_calls: [{ index: 1, function: { name: "f", arguments: "{" } }] }) +
  delta({ tool_calls: [{ index: 1, function: { arguments: "}" } }] }) +
  event({ choices: [{ index: 0, delta: { content: "b" }, logprobs: { content: [{ token: "b", top_logprobs: [{ token: "b", logprob: -1 }] }] } }] }, "\r\n\r\n") +
  `${delta({}, "stop")}${event({ choices: [], usage: { completion_tokens: 3 } })}data: [DONE]\n\n`;
for (const size of [1, 2, 3, 7, 100, 10_000]) {
  const all = bytes(WHOLE);
  const pieces = [];
  for (let at = 0; at < all.length; at += size) pieces.push(all.slice(at, at + size));
  const { message, ended } = await read(pieces);
  assert.deepEqual(message, {
    content: "a é 😀b", reasoning: "Hm", tokens: [{ text: "b", top: [["b", -1]] }],
    calls: [{ name: "", arguments: "" }, { name: "f", arguments: "{}" }],
  });
  assert.equal(ended.state, undefined);
}

// how an answer ends
const state = async (...args) => {
  const { ended } = await read(...args);
  return [ended.state, ended.error];
};
assert.deepEqual(await state([bytes(delta({ content: "a" }, "length") + "data: [DONE]\n\n")]), ["cut", undefined]);
assert.deepEqual(await state([bytes(delta({ content: "a" }))]), ["failed", "the server ended the answer before its end"]);
assert.deepEqual(await state([bytes(delta({ content: "a" })), new TypeError("network error")]), ["failed", "the connection to the server is lost"]);
assert.deepEqual(await state([bytes(event({ error: { message: "out of memory" } }))]), ["failed", "out of memory"]);
assert.deepEqual(await state([bytes('{"error": {"message": "no such model"}}')], { status: 404 }), ["failed", "no such model"]);
assert.deepEqual(await state([bytes("<html>Bad Gateway")], { status: 502 }).then(([one, text]) => [one, text.slice(0, 23)]), ["failed", "the server answered 502"]);
assert.deepEqual(await state([new DOMException("", "AbortError")]), ["stopped", undefined]);
assert.equal((await state([bytes("data: {\n\n")]))[0], "failed");
serve([bytes('{"error": {"message": "the key is wrong"}}')], { status: 401 });
await assert.rejects(get("v1/models", {}), /the key is wrong/);

// figures: by the server's clock if it tells, none that mean nothing
const times = { begun: 0, first: 100, ended: 1100 };
const waited = "first token after 0.10 s";
assert.equal(speed({ ...times, count: 101 }), `100.0 tokens/s, ${waited}`);
assert.equal(speed({ ...times, ended: 103, count: 21 }), waited);
assert.equal(speed({ ...times, count: 3 }), waited);
assert.equal(speed({ ...times }), waited);
const timings = { predicted_n: 20, predicted_per_second: 55.55 };
assert.equal(speed({ ...times, ended: 103, count: 21, timings }), `55.5 tokens/s, ${waited}`);
assert.equal(speed({ ...times, timings: { ...timings, predicted_per_second: null } }), waited);
console.log("all checks passed");
