/**
 * A client of the gateway that lost its connection at the first word of an answer, and returns when the answer has thousands: how long it waits for
 * the second word.
 */
import { serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";

interface Place {
  readonly path: string;
  /** Of the frame with the first word. */
  readonly id: string;
}

const CONTENT = '"content":"';
const FRAME_END = "\n\n";

let place: Place = { path: "", id: "" };

/** Reads frames until `isEnough` says so, and leaves. */
async function read(
  url: string,
  init: RequestInit,
  isEnough: (words: number, frame: string) => boolean,
): Promise<Response> {
  const leave = new AbortController();
  const response = await fetch(url, { ...init, signal: leave.signal });
  if (!response.ok || response.body === null) throw new Error(`the gateway answered ${response.status}`);
  let [rest, words] = ["", 0];
  try {
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      const frames = (rest + piece).split(FRAME_END);
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        if (frame.includes(CONTENT)) words++;
        if (words > 0 && isEnough(words, frame)) return response;
      }
    }
  } finally {
    leave.abort();
  }
  throw new Error(`the answer ended behind ${words} words`);
}

async function begin(given: Arguments): Promise<Measured> {
  const words = numberIn(given, "words");
  const content = textIn(given, "question");
  let id = "";
  const response = await read(
    `http://127.0.0.1:${numberIn(given, "port")}/v1/chat/completions`,
    {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${textIn(given, "apiKey")}` },
      body: JSON.stringify({ model: "local/bench", stream: true, messages: [{ role: "user", content }] }),
    },
    (count, frame) => {
      if (count === 1) id ||= /^id: (.+)$/m.exec(frame)?.[1] ?? "";
      return count >= words;
    },
  );
  place = { path: response.headers.get("x-holdfast-resume") ?? "", id };
  return { words };
}

/** How long it takes to the next word, and to all that had been said when the client left. */
async function resume(given: Arguments): Promise<Measured> {
  const words = numberIn(given, "words");
  const headers = { authorization: `Bearer ${textIn(given, "apiKey")}`, "last-event-id": place.id };
  const askedMs = performance.now();
  let firstMs = Number.NaN;
  await read(`http://127.0.0.1:${numberIn(given, "port")}${place.path}`, { headers }, (count) => {
    if (Number.isNaN(firstMs)) firstMs = performance.now() - askedMs;
    return count >= words - 1;
  });
  return { firstMs, allMs: performance.now() - askedMs };
}

serveCommands({ begin, resume });
