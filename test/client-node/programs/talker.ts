/**
 * A client as its own process: opens a stream or goes on with what it finds, and tells its parent
 * everything that it sees. Its tools write what they do into a file, so that their effects outlive it.
 *
 * Told "snapshot", it keeps what it has read so far, and says when that is on disk.
 */
import { appendFileSync } from "node:fs";
import {
  type ClientStream,
  HoldfastError,
  openClient,
  STREAM_DEFAULTS,
  type Tools,
} from "../../../src/client-node/index.ts";
import { decodeTurnEvent, encodeSuccess, encodeWords } from "./turn-messages.ts";

const [, , what = "", workspace = "", argument = ""] = process.argv;
const effects = `${workspace}/effects`;
const say = (...words: readonly (string | number)[]): void => void process.send?.(words.join(" "));

const tools: Tools = {
  policy: () => ({ repeatable: false, needsApproval: false }),
  approve: async () => ({ allowed: true, untilMs: Date.now() + 60_000 }),
  async run({ execId }) {
    appendFileSync(effects, `${execId}\n`);
    say("ran", execId);
    // The second one never comes back: whoever waits for it has to kill this process.
    if (execId === "exec-2") await new Promise(() => undefined);
    return encodeSuccess(execId, "shell");
  },
  stopLeftover: ({ execId }) => say("leftover", execId),
};

const client = await openClient({
  directory: workspace,
  keyring: false,
  tools,
  stream: { retry: { ...STREAM_DEFAULTS.retry, baseMs: 10, capMs: 100 } },
  onNotice: () => say("notice"),
});

async function follow(stream: ClientStream): Promise<void> {
  const { restored } = stream;
  const seen = restored === undefined ? [] : new TextDecoder().decode(restored.state).split(",");
  let cursor = restored?.cursor ?? 0;
  say("following", cursor, seen.join(","));
  process.on("message", (message) => {
    if (message === "snapshot") void keep();
  });
  async function keep(): Promise<void> {
    stream.snapshot(cursor, Buffer.from(seen.join(",")));
    // Records reach the disk in order: when this one is there, so is the snapshot.
    await stream.send(encodeWords("after the snapshot", cursor, false));
    say("kept", cursor);
  }
  for await (const { eventId, body, end } of stream.events) {
    cursor = eventId;
    if (end !== undefined) continue;
    const event = decodeTurnEvent(body);
    const word = event.kind === "text" ? event.text : event.kind;
    seen.push(word);
    say("event", eventId, word);
  }
  say("ended", String(await stream.ended), seen.join(","));
}

async function act(): Promise<void> {
  switch (what) {
    case "open": {
      const stream = await client.open({ first: encodeWords("talker", 0, false) });
      say("opened", stream.idempotencyKey);
      return follow(stream);
    }
    case "resume":
      return follow(await client.resume(argument));
    case "follow":
      return follow(await client.follow(argument));
    case "resume-all": {
      const report = await client.resumeAll();
      const { resumed, cleared, elsewhere, kept } = report;
      say("found", resumed.length, cleared.length, elsewhere.length, kept.length);
      for (const { reason } of kept) say("kept-reason", reason);
      await Promise.all(resumed.map(follow));
      return;
    }
    default:
      throw new Error(`nobody knows how to ${what}`);
  }
}

try {
  await act();
} catch (cause) {
  say("failed", cause instanceof HoldfastError ? `${cause.code}: ${cause.message}` : String(cause));
}
await client.close();
say("closed");
process.disconnect();
