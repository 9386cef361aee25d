// The npm client of OpenAI against a server whose address is the argument.

import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const model = "built-in";
const messages = [{ role: "user", content: "What is 2 plus 3?" }];
const chat = (more = {}) =>
  client.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0, ...more });

// chats, whole and streamed
const whole = await chat();
const text = whole.choices[0].message.content;
assert.match(text, /5/);
let streamed = "";
let usage = null;
for await (const chunk of await chat({ stream: true, stream_options: { include_usage: true } })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(streamed, text);
assert.deepEqual(usage.total_tokens, whole.usage.total_tokens);
const helper = client.chat.completions.stream({ model, messages, max_tokens: 16, temperature: 0 });
assert.equal(await helper.finalContent(), text);

// log-probabilities
const scored = await chat({ logprobs: true, top_logprobs: 2, max_tokens: 3 });
assert.equal(scored.choices[0].logprobs.content.length, 3);
assert.equal(scored.choices[0].logprobs.content[0].top_logprobs.length, 2);

// structured output
const schema = {
  type: "object",
  properties: { right: { type: "boolean" } },
  required: ["right"],
  additionalProperties: false,
};
const format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
const parsed = await client.chat.completions.parse({
  model, messages, max_tokens: 100, temperature: 0, response_format: format,
});
assert.equal(typeof JSON.parse(parsed.choices[0].message.content).right, "boolean");

// a demanded tool call, streamed
const tool = { type: "function", function: { name: "answer", parameters: schema } };
const calls = client.chat.completions.stream({
  model, messages, tools: [tool], tool_choice: "required", parallel_tool_calls: false,
  max_tokens: 200, temperature: 0,
});
const completion = await calls.finalChatCompletion();
assert.equal(completion.choices[0].finish_reason, "tool_calls");
const [call] = completion.choices[0].message.tool_calls;
assert.equal(call.function.name, "answer");
assert.equal(typeof JSON.parse(call.function.arguments).right, "boolean");
const answered = await client.chat.completions.create({
  model, tools: [tool], max_tokens: 8,
  messages: [
    ...messages, completion.choices[0].message,
    { role: "tool", tool_call_id: call.id, content: "It is right." },
  ],
});
assert.ok(answered.usage.prompt_tokens > whole.usage.prompt_tokens);

// completions, responses, models, embeddings
const after = await client.completions.create({ model, prompt: "Once", max_tokens: 4, echo: true });
assert.ok(after.choices[0].text.startsWith("Once"));
const response = await client.responses.create({
  model, input: messages[0].content, max_output_tokens: 16, temperature: 0,
});
assert.equal(response.output_text, text);
const kinds = [];
for await (const event of await client.responses.create({
  model, input: messages[0].content, max_output_tokens: 16, temperature: 0, stream: true,
})) {
  kinds.push(event.type);
}
assert.equal(kinds[0], "response.created");
assert.ok(["response.completed", "response.incomplete"].includes(kinds.at(-1)));
const ids = [];
for await (const one of client.models.list()) ids.push(one.id);
assert.deepEqual(ids, [model]);

// errors
await assert.rejects(chat({ model: "none" }), OpenAI.NotFoundError);
await assert.rejects(chat({ temperature: "hot" }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  return error.param === "temperature";
});
await assert.rejects(
  chat({ messages: [{ role: "user", content: "a ".repeat(5000) }] }),
  (error) => error.code === "context_length_exceeded",
);

// a client that stops in the middle
const stopped = await chat({ stream: true, max_tokens: 200 });
for await (const chunk of stopped) {
  assert.ok(chunk.id);
  stopped.controller.abort();
}
assert.equal((await chat()).choices[0].message.content, text);
console.log("all checks passed");
