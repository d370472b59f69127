/**
 * A stock client with `holdfast/fetch` whose server is killed in the middle of an answer: it reads on, and says when the next token came.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "../../src/fetch/index.ts";
import { serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";

const SETTLE_MS = 50;

let tokens = 0;
let over: Promise<void> = Promise.resolve();

async function read(url: string, apiKey: string, content: string): Promise<void> {
  const send = holdfast({ baseURL: url });
  const response = await send(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ model: "local/bench", stream: true, messages: [{ role: "user", content }] }),
  });
  if (!response.ok || response.body === null) throw new Error(`the gateway answered ${response.status}`);
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    tokens = text.split('"content":"').length - 1;
  }
  if (!text.endsWith("data: [DONE]\n\n")) throw new Error(`the answer broke off: ${text.slice(-200)}`);
}

async function until(count: number): Promise<void> {
  const hasCome = (): boolean => tokens >= count;
  // An answer that fails ends the wait.
  while (!hasCome()) await Promise.race([sleep(1), over.then(() => sleep(1))]);
}

/** Asks, and waits for so many tokens. */
async function begin(given: Arguments): Promise<Measured> {
  tokens = 0;
  const url = `http://127.0.0.1:${numberIn(given, "port")}/v1`;
  over = read(url, textIn(given, "apiKey"), textIn(given, "question"));
  over.catch(() => undefined);
  await until(numberIn(given, "tokens"));
  return { tokens };
}

serveCommands({
  begin,
  /** One more than there are when all has been read that the server had sent. */
  async next() {
    await sleep(SETTLE_MS);
    await until(tokens + 1);
    return { tokens };
  },
  async whole() {
    await over;
    return { tokens };
  },
});
