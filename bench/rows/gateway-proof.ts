/**
 * That the gateway a row has just measured keeps what it says: with syncs, sealing and sessions used again, and over a kill.
 *
 * A row whose gateway fails this has measured something else, and fails.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Asking } from "./gateway-peers.ts";
import { isProfiling } from "./deliver.ts";

/** In the clear it stands in the request; on the disk it may not. */
const CANARY = "canary-that-no-file-may-hold";
const API_KEY = "principal-of-the-proof";

/** Ends the gateway's process. Where profiles are written it does nothing: a process that is killed writes none. */
export async function proveKept({ ask, gateway, provider, directory, again }: Asking): Promise<void> {
  if (gateway === undefined || isProfiling()) return;
  await gateway.call("count");
  // A turn with a tool, from one session.
  await ask("park", { sessions: 1, perPrincipal: 1, messages: 2 });
  await ask("answerParked");
  const { continued = 0, syncs = 0, durable = 0 } = await gateway.call("counted");
  if (continued !== 1) throw new Error("a tool's result did not go to the session that waited for it");
  if (syncs === 0 || durable !== 1) throw new Error(`the log took ${syncs} commits and syncs none`);
  const given = { question: `${CANARY} ${writeQuestion({ tokens: 20 })}`, apiKey: API_KEY };
  await ask("keep", given);
  await gateway.kill();
  await provider.peer.call("counted");
  await proveSealed(directory);
  const { peer, port } = await again();
  await ask("repeat", { ...given, port });
  const modelCalls = numberOf(await provider.peer.call("counted"), "modelCalls");
  if (modelCalls !== 0) throw new Error(`a retry after a kill called the model ${modelCalls} times`);
  await peer.stop();
}

async function proveSealed(directory: string): Promise<void> {
  const files = await readdir(directory, { recursive: true, withFileTypes: true });
  let bytes = 0;
  for (const file of files.filter((entry) => entry.isFile())) {
    const content = await readFile(join(file.parentPath, file.name));
    bytes += content.byteLength;
    if (content.includes(CANARY)) throw new Error(`${file.name} holds a question in the clear`);
  }
  if (bytes === 0) throw new Error("nothing was kept");
}
