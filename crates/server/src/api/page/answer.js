// Requests to the server, and answers as they come.

/** The error that a response tells. */
async function refusal(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message || text;
  } catch {
    return `the server answered ${response.status} ${response.statusText}`;
  }
}

/** What an error says. Browsers tell a lost connection in words of their own. */
function reason(error) {
  const isLost = error instanceof TypeError && /fetch|network|load failed|input stream/i.test(error.message);
  return isLost ? "the connection to the server is lost" : error.message;
}

/** The JSON of a path. */
export async function get(path, headers) {
  try {
    const response = await fetch(path, { headers });
    if (!response.ok) throw new Error(await refusal(response));
    return await response.json();
  } catch (error) {
    throw new Error(reason(error));
  }
}

/** The JSON of each event of a stream. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (held + value).split(/\r?\n/);
    held = lines.pop();
    // the server writes an event as one line
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") {
        yield { done: true };
        return;
      }
      yield JSON.parse(data);
    }
  }
}

/** Adds a chunk of a stream to a message. */
function take(message, chunk) {
  if (chunk.error) throw new Error(chunk.error.message);
  for (const choice of chunk.choices ?? []) {
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta;
    if (content) message.content += content;
    if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
    for (const call of calls ?? []) {
      message.calls ??= [];
      while (message.calls.length <= call.index) message.calls.push({ name: "", arguments: "" });
      const own = message.calls[call.index];
      own.name += call.function?.name ?? "";
      own.arguments += call.function?.arguments ?? "";
    }
    for (const token of choice.logprobs?.content ?? []) {
      message.tokens ??= [];
      message.tokens.push({ text: token.token, top: token.top_logprobs.map((top) => [top.token, top.logprob]) });
    }
  }
}

// A rate of fewer tokens, or by the page's clock of a shorter time, says nothing.
const TOKENS = 16;
const SECONDS = 0.2;

/** The figures below an answer: by the server's clock if it tells its times, or by the page's. */
export function speed({ begun, first, ended, count, timings }) {
  const seconds = (ended - first) / 1000;
  const tokens = timings?.predicted_n ?? count;
  const rate = timings ? timings.predicted_per_second : (tokens - 1) / seconds;
  const says = tokens >= TOKENS && Number.isFinite(rate) && (timings || seconds >= SECONDS);
  const waited = `first token after ${((first - begun) / 1000).toFixed(2)} s`;
  return says ? `${rate.toFixed(1)} tokens/s, ${waited}` : waited;
}

/**
 * Asks for an answer, which grows in a message; `grown` is called after each piece. Returns how the
 * answer ended: {state, error, stats}.
 */
export async function ask(message, body, headers, signal, grown) {
  const times = { begun: performance.now(), first: 0 };
  let state;
  let error;
  let complete = false;
  try {
    const response = await fetch("v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body), signal });
    if (!response.ok) throw new Error(await refusal(response));
    for await (const chunk of events(response.body)) {
      take(message, chunk);
      const finish = chunk.choices?.[0]?.finish_reason;
      complete ||= Boolean(finish || chunk.done);
      if (finish === "length") state = "cut";
      times.count = chunk.usage?.completion_tokens ?? times.count;
      times.timings = chunk.timings ?? times.timings;
      if (!times.first && (message.content || message.reasoning)) times.first = performance.now();
      grown();
    }
    if (!complete) throw new Error("the server ended the answer before its end");
  } catch (caught) {
    state = caught.name === "AbortError" ? "stopped" : "failed";
    if (state === "failed") error = reason(caught);
  }
  times.ended = performance.now();
  return { state, error, stats: times.first ? speed(times) : undefined };
}
