/**
 * A whole server on a real port: memory store, Node sealing, and an application that repeats what it is told.
 */
import type { TestContext } from "node:test";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { httpRig, type HttpRig } from "./http-rig.ts";

/** Says every chunk again; ends when it is told "bye" or the client has said everything. */
export const echo: Application = async (stream) => {
  for await (const input of stream.inputs) {
    if (input.kind === "close") return;
    if (input.kind !== "chunk") continue;
    if (Buffer.from(input.body).toString() === "bye") {
      await stream.end(input.body);
      return;
    }
    await stream.emit(input.body);
  }
};

export async function streamServer(t: TestContext, application: Application = echo): Promise<HttpRig> {
  const store = await openLogStreamStore(new MemoryLog({ durability: "fsync" }), { now: () => Date.now() });
  const bugs: unknown[] = [];
  const server = createServer({ store, sealing: nodeSealing(), application, onBug: (bug) => bugs.push(bug) });
  const rig = await httpRig(server.accept, t);
  t.after(async () => {
    await server.shutdown();
    if (bugs.length > 0) throw new Error("the server met a bug", { cause: bugs[0] });
  });
  return rig;
}
