/**
 * A server over real HTTP in the test's process, and directories for clients that are other processes.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { memoryStreamStore } from "../../src/store/index.ts";
import { openPort } from "../../src/transport/node/port.ts";
import { streamEndpoints } from "../../src/transport/node/stream-endpoints.ts";
import { Child } from "./child.ts";
import { temporaryDirectory } from "./temporary.ts";

export interface Rig {
  readonly url: string;
  /** Every client here works in this directory. */
  readonly workspace: string;
  /** Where home keys lie that no keyring keeps. */
  readonly configuration: string;
  start(program: string, ...args: readonly string[]): Child;
}

export async function startRig(t: TestContext, application: Application): Promise<Rig> {
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const store = await memoryStreamStore({ now: Date.now });
  const server = createServer({ store, sealing: nodeSealing(), application, onBug });
  const endpoints = streamEndpoints({ accept: server.accept, onBug });
  const port = await openPort({
    handle: (exchange) => endpoints.handle(exchange, { principal: "me" }),
    onBug,
  });
  const workspace = temporaryDirectory(t);
  const configuration = join(temporaryDirectory(t), "configuration");
  t.after(async () => {
    await server.shutdown();
    await port.close(0);
    assert.deepEqual(bugs, []);
  });
  return {
    url: port.url,
    workspace,
    configuration,
    start: (program, ...args) =>
      new Child(t, program, args, {
        HOLDFAST_URL: port.url,
        HOLDFAST_HOME_KEY: undefined,
        XDG_CONFIG_HOME: configuration,
      }),
  };
}

/** Something that a server's application waits for. */
export class Gate {
  readonly #opened = Promise.withResolvers<void>();

  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  open(): void {
    this.#opened.resolve();
  }
}
