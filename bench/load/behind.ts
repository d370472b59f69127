/**
 * A client of the gateway that lost its connection some words ago, and returns to an answer that has thousands: how long it waits for the next word.
 */
import { serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";

interface Place {
  readonly path: string;
  /** Of the role's frame, and of each frame with a word. */
  readonly ids: readonly string[];
}

/** The role's chunk has an empty one. */
const WORD = /"content":"[^"]/;
const ID = /^id: (?<id>\d+:(?<event>\d+)\S*)$/m;
const FRAME_END = "\n\n";

let place: Place = { path: "", ids: [] };

/** Reads frames until one is enough, and leaves. */
async function read(
  url: string,
  init: RequestInit,
  isEnough: (frame: string, id: string) => boolean,
): Promise<Response> {
  const leave = new AbortController();
  const response = await fetch(url, { ...init, signal: leave.signal });
  if (!response.ok || response.body === null) throw new Error(`the gateway answered ${response.status}`);
  let rest = "";
  try {
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      const frames = (rest + piece).split(FRAME_END);
      rest = frames.pop() ?? "";
      for (const frame of frames) if (isEnough(frame, ID.exec(frame)?.groups?.["id"] ?? "")) return response;
    }
  } finally {
    leave.abort();
  }
  throw new Error("the answer ended too soon");
}

async function begin(given: Arguments): Promise<Measured> {
  const words = numberIn(given, "words");
  const content = textIn(given, "question");
  const ids: string[] = [];
  const response = await read(
    `http://127.0.0.1:${numberIn(given, "port")}/v1/chat/completions`,
    {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${textIn(given, "apiKey")}` },
      body: JSON.stringify({ model: "local/bench", stream: true, messages: [{ role: "user", content }] }),
    },
    (frame, id) => {
      if (ids.length === 0 || WORD.test(frame)) ids.push(id);
      return ids.length > words;
    },
  );
  place = { path: response.headers.get("x-holdfast-resume") ?? "", ids };
  return { words };
}

/** How long it takes to the next word, and to all that had been said when the client left. `missing`: how many words it lacks. */
async function resume(given: Arguments): Promise<Measured> {
  const lastEventId = place.ids.at(-numberIn(given, "missing") - 1) ?? "";
  const headers = { authorization: `Bearer ${textIn(given, "apiKey")}`, "last-event-id": lastEventId };
  const eventOf = (id: string): number => Number(ID.exec(`id: ${id}`)?.groups?.["event"]);
  const through = eventOf(place.ids.at(-1) ?? "");
  const askedMs = performance.now();
  let firstMs = Number.NaN;
  await read(`http://127.0.0.1:${numberIn(given, "port")}${place.path}`, { headers }, (frame, id) => {
    if (!WORD.test(frame)) return false;
    if (Number.isNaN(firstMs)) firstMs = performance.now() - askedMs;
    return eventOf(id) >= through;
  });
  return { firstMs, allMs: performance.now() - askedMs };
}

serveCommands({ begin, resume });
