// Vercel's AI SDK and the libraries of Anthropic and Ollama: the argument is the address of a server.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { Ollama } from "ollama";

const address = process.argv[2];
const openai = createOpenAI({ baseURL: `${address}/v1`, apiKey: "none" });
const compatible = createOpenAICompatible({
  name: "pelton", baseURL: `${address}/v1`, apiKey: "none", supportsStructuredOutputs: true,
});
const anthropic = createAnthropic({ baseURL: `${address}/v1`, apiKey: "none" });
const schema = {
  type: "object", properties: { rains: { type: "boolean" } }, required: ["rains"],
  additionalProperties: false,
};

for (const [name, model] of [
  ["compatible", compatible("built-in")],
  ["chat", openai.chat("built-in")],
  // stores its turns, and names them in the next request
  ["responses", openai.responses("built-in")],
  ["anthropic", anthropic("built-in")],
]) {
  let ran = 0;
  const tools = {
    report: tool({
      description: "Reports", inputSchema: jsonSchema(schema),
      execute: async ({ rains }) => {
        assert.equal(typeof rains, "boolean");
        ran += 1;
        return "It rains.";
      },
    }),
  };
  const options = { model, tools, maxOutputTokens: 200, temperature: 0, maxRetries: 0 };
  // a stream of two steps: the SDK runs the tool between them
  const steps = streamText({
    ...options, prompt: "Is it raining in Ulm?", stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    onError: ({ error }) => { throw error; },
  });
  for await (const _ of steps.textStream);
  assert.equal((await steps.steps).length, 2, name);
  assert.ok(ran >= 1, name);
  ran = 0;
  const { object } = await generateObject({
    ...options, tools: undefined, prompt: "Is it raining in Ulm?", schema: jsonSchema(schema),
  });
  assert.equal(typeof object.rains, "boolean", name);
  const prompt = "Is it raining in Ulm?";
  const first = await generateText({ ...options, prompt, toolChoice: "required" });
  assert.ok(ran >= 1, `${name}: ${JSON.stringify(first.content)}`);
  const messages = [
    { role: "user", content: prompt }, ...first.response.messages,
    { role: "user", content: "And now?" },
  ];
  const second = await generateText({ ...options, messages, maxOutputTokens: 8 });
  assert.ok(second.usage.inputTokens > 0, name);
  const third = [...messages, ...second.response.messages, { role: "user", content: "Why?" }];
  const last = streamText({
    ...options, messages: third, maxOutputTokens: 8, stopWhen: stepCountIs(1),
    onError: ({ error }) => { throw error; },
  });
  for await (const _ of last.textStream);
  assert.ok(await last.finishReason, name);
}

const client = new Anthropic({ baseURL: address, apiKey: "none", maxRetries: 0 });
const message = await client.messages.create({
  model: "built-in", max_tokens: 200, temperature: 0,
  messages: [{ role: "user", content: "Is it raining?" }],
  tools: [{ name: "report", input_schema: schema }],
  tool_choice: { type: "tool", name: "report" },
});
const call = message.content.find((block) => block.type === "tool_use");
assert.equal(typeof call.input.rains, "boolean");
const text = client.messages.stream({
  model: "built-in", max_tokens: 8,
  messages: [
    { role: "user", content: "Is it raining?" }, { role: "assistant", content: message.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "Yes." }] },
  ],
});
assert.equal((await text.finalMessage()).role, "assistant");
assert.equal((await client.models.list()).data[0].type, "model");

const ollama = new Ollama({ host: address });
const answer = await ollama.chat({
  model: "built-in", format: schema, options: { temperature: 0, num_predict: 60 },
  messages: [{ role: "user", content: "Is it raining?" }],
});
assert.equal(typeof JSON.parse(answer.message.content).rains, "boolean");
// Ollama's API has no choice of tools, the server has
const demanding = new Ollama({
  host: address,
  fetch: (url, init) =>
    fetch(url, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), tool_choice: "required" }) }),
});
const messages = [{ role: "user", content: "Is it raining?" }];
const tools = [{ type: "function", function: { name: "report", parameters: schema } }];
const parts = await demanding.chat({
  model: "built-in", messages, tools, stream: true, options: { temperature: 0, num_predict: 200 },
});
for await (const part of parts) {
  if (part.message.tool_calls) messages.push(part.message);
}
assert.equal(typeof messages[1].tool_calls[0].function.arguments.rains, "boolean");
messages.push({ role: "tool", tool_name: "report", content: "It rains." });
const after = await ollama.chat({ model: "built-in", messages, tools, options: { num_predict: 8 } });
assert.equal(after.done, true);
assert.equal((await ollama.list()).models[0].digest.length, 64);
console.log("all checks passed");
