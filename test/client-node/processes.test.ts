/**
 * Clients as real processes over real HTTP: killed in the middle of a stream, and started again.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Application, ApplicationStream } from "../../src/server/index.ts";
import { decodeSaying, encodeTurnEvent } from "./programs/turn-messages.ts";
import { Gate, startRig } from "./rig.ts";

const words = (first: number, last: number): readonly string[] =>
  Array.from({ length: last - first + 1 }, (_, at) => `w${first + at}`);

async function emitWords(stream: ApplicationStream, first: number, last: number): Promise<void> {
  for (const text of words(first, last)) await stream.emit(encodeTurnEvent({ kind: "text", text }));
}

/** Ten words, then twenty more when the gate opens. */
const waiting =
  (gate: Gate): Application =>
  async (stream) => {
    await emitWords(stream, 1, 10);
    await gate.opened;
    // Another kind between the words keeps replay from joining them into one.
    await stream.emit(encodeTurnEvent({ kind: "step_completed", step: 1 }));
    await emitWords(stream, 11, 20);
  };

/** Asks for two execs, one after the other, and says how they went. */
const asking: Application = async (stream) => {
  let asked = 0;
  for await (const _ of stream.past()) asked++;
  const ask = async (execId: string): Promise<void> => {
    await stream.emit(encodeTurnEvent({ kind: "exec", execId, tool: "shell", args: "deploy" }));
  };
  if (asked === 0) await ask("exec-1");
  const outcomes: string[] = [];
  for await (const input of stream.inputs) {
    const saying = input.kind === "chunk" ? decodeSaying(input.body) : undefined;
    if (saying?.kind !== "result") continue;
    outcomes.push(`${saying.execId}:${saying.outcome}`);
    if (outcomes.length === 2) break;
    if (asked < 2) await ask("exec-2");
  }
  await stream.end(encodeTurnEvent({ kind: "text", text: "" }));
  results.push(outcomes.join(" "));
};
const results: string[] = [];

test("B3: a client that is killed goes on from its snapshot in another process, nothing lost or doubled", async (t) => {
  const gate = new Gate();
  const rig = await startRig(t, waiting(gate));
  const first = rig.start("talker.ts", "open", rig.workspace);
  const key = await first.word("opened");
  await first.word("event 7");
  first.tell("snapshot");
  const keptAt = Number(await first.word("kept"));
  await first.word("event 10");
  await first.kill();
  gate.open();

  const second = rig.start("talker.ts", "resume-all", rig.workspace);
  assert.equal(await second.word("found"), "1 0 0 0");
  const [cursor, seen] = (await second.word("following")).split(" ");
  assert.equal(Number(cursor), keptAt);
  assert.deepEqual(seen?.split(","), words(1, keptAt));
  const ended = await second.word("ended");
  assert.ok(ended.startsWith("completed "));
  // Joined deltas carry several words at once; the text is the same.
  const text = ended.slice("completed ".length).replaceAll(",", "").replace("step_completed", "");
  assert.equal(text, words(1, 20).join(""));
  await second.word("closed");

  const third = rig.start("talker.ts", "resume-all", rig.workspace);
  assert.equal(await third.word("found"), "0 1 0 0", "what has ended is cleared");
  await third.word("closed");
  assert.equal(key.length, 32);
});

test("C2: a tool that was killed with its client is not run again, and the server is told unknown", async (t) => {
  const rig = await startRig(t, asking);
  const first = rig.start("talker.ts", "open", rig.workspace);
  await first.word("ran exec-1");
  await first.word("ran exec-2");
  await first.kill();

  const second = rig.start("talker.ts", "resume-all", rig.workspace);
  await second.word("leftover exec-2");
  assert.ok((await second.word("ended")).startsWith("completed"));
  await second.word("closed");
  assert.deepEqual(results, ["exec-1:success exec-2:unknown"]);
  assert.equal(readFileSync(join(rig.workspace, "effects"), "utf8"), "exec-1\nexec-2\n");
});

test("D1: two processes in one workspace both work, and a stream of one is refused to the other", async (t) => {
  const gate = new Gate();
  const rig = await startRig(t, waiting(gate));
  const first = rig.start("talker.ts", "open", rig.workspace);
  const key = await first.word("opened");
  await first.word("event 10");

  const looking = rig.start("talker.ts", "resume-all", rig.workspace);
  assert.equal(await looking.word("found"), "0 0 1 0");
  await looking.word("closed");

  const refused = rig.start("talker.ts", "resume", rig.workspace, key);
  assert.match(await refused.word("failed"), new RegExp(`^busy: .*process ${first.pid}\\b`));
  await refused.word("closed");

  const reader = rig.start("talker.ts", "follow", rig.workspace, key);
  await reader.word("event 10");
  const beside = rig.start("talker.ts", "open", rig.workspace);
  await beside.word("event 10");

  await first.kill();
  const next = rig.start("talker.ts", "resume", rig.workspace, key);
  assert.equal(await next.word("following"), "0 ");
  gate.open();
  assert.ok((await next.word("ended")).startsWith("completed"));
  assert.ok((await beside.word("ended")).startsWith("completed"));
  await reader.word("ended");
});
