// A server that passes all requests on, but answers chats by itself: what it says, and how, is in the
// question. So a test can have any text, a slow stream, and one that breaks.

import { createServer, request } from "node:http";

const MARKDOWN = `Three steps, and you can **ask it anything**:

1. Start the *server*.

   \`\`\`sh
   pelton serve model.gguf
   \`\`\`

2. Choose a size that fits your memory.

   | model | memory | good for |
   |:--|--:|:--|
   | small | 1 GB | short texts |
   | large | 8 GB | code, long texts |

3. Open the page:
   - [x] on this computer
   - [ ] on a phone

> A token takes \\(t = b / w\\): bytes by bandwidth.
`;
const XSS = "<img src=x onerror=alert(1)> <script>alert(1)</script> <svg onload=alert(1)>\n\n<iframe src=//x>\n\n" +
  "[a](javascript:alert(1)) [b](data:text/html,<script>) [c](https://example.com) ![d](https://example.com/d.png)\n\n" +
  "```<img>\n</code><img src=x>\n```\n\n| <b>x</b> |\n|---|\n| <img src=x onerror=alert(1)> |";

const words = (count) => Array.from({ length: count }, (_, i) => `word${i} `);
const ANSWERS = {
  plan: MARKDOWN.match(/[\s\S]{1,7}/g),
  xss: [XSS],
  hostile: ["+ ".repeat(3000), "\n\n", ">".repeat(20_000), "\n\n", "*".repeat(20_000), "\n\nend"],
  slow: words(2000),
  cut: words(5),
  broken: words(5),
  short: ["yes"],
};

/** Starts the server. `asked` has the bodies of the chats. */
export async function fake(upstream) {
  const asked = [];
  const answer = async (body, response) => {
    asked.push(body);
    const { content } = body.messages.findLast((one) => one.role === "user");
    // pictures alone have a short answer
    const question = typeof content === "string" ? content : content.map(({ text }) => text ?? "short").join("");
    const kind = Object.keys(ANSWERS).find((word) => question.includes(word));
    if (!kind) {
      response.writeHead(503, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "the fake server has no answer" } }));
      return;
    }
    const goesOn = body.continue_final_message ? ["and more"] : ANSWERS[kind];
    const write = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    const part = (delta, reason = null) => write({ choices: [{ index: 0, delta, finish_reason: reason }] });
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (kind === "xss") {
      part({ reasoning_content: "<img src=x onerror=alert(1)>" });
      part({ tool_calls: [{ index: 0, function: { name: "<b>add</b>", arguments: "{}" } }] });
    }
    for (const piece of goesOn) {
      if (response.destroyed) return;
      part({ content: piece });
      await new Promise((resolve) => setTimeout(resolve, { slow: 20, plan: 5 }[kind] ?? 1));
    }
    if (kind === "broken" && !body.continue_final_message) {
      // what is written before must arrive
      await new Promise((resolve) => setTimeout(resolve, 500));
      response.destroy();
      return;
    }
    part({}, kind === "cut" && !body.continue_final_message ? "length" : "stop");
    if (kind !== "plan") write({ choices: [], usage: { prompt_tokens: 1, completion_tokens: goesOn.length, total_tokens: 1 + goesOn.length } });
    response.end("data: [DONE]\n\n");
  };
  const server = createServer(async (incoming, response) => {
    if (incoming.url === "/v1/chat/completions") {
      const parts = [];
      for await (const part of incoming) parts.push(part);
      await answer(JSON.parse(Buffer.concat(parts).toString()), response);
      return;
    }
    const headers = { ...incoming.headers, host: new URL(upstream).host };
    delete headers.origin;
    const passed = request(upstream + incoming.url, { method: incoming.method, headers }, (from) => {
      response.writeHead(from.statusCode, from.headers);
      from.pipe(response);
    });
    incoming.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { address: `http://127.0.0.1:${server.address().port}`, asked, close };
}
