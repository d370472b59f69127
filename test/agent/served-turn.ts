/**
 * One turn of the production agent on the production server, over a log in memory whose appends take long, with a client
 * that answers everything at once.
 *
 * There is no clock in it: an append takes so many turns of the event loop, and everything else takes a few. So what
 * could go into a commit does, whatever the machine is busy with, and counting appends counts the syncs that
 * somebody waits for.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import { createAgent, type Model, type Models } from "../../src/agent/index.ts";
import { Client, type ClientStream } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  ExecKind,
} from "../../src/protocol/messages.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { type CommitLog, memoryBlobStore, MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { memoryTransport } from "../../src/transport/index.ts";
import { shellDone } from "./keeping-client.ts";

type ClientSays = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;

const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };

/** Of the event loop, for an append: far more than anything else takes. */
const APPEND_TURNS = 100;

async function turnsOfTheLoop(count: number): Promise<void> {
  for (let at = 0; at < count; at++) await new Promise((resolve) => setImmediate(resolve));
}

/** The disk: appends are counted when they are durable, and one of them may never be. */
export class SlowLog extends MemoryLog {
  appends = 0;
  /** The process dies while this append is on its way. */
  loseAt: number | undefined;
  readonly dying = Promise.withResolvers<void>();
  isDying = false;
  readonly #never = Promise.withResolvers<never>();

  constructor(rows?: MemoryLog["rows"]) {
    super({ durability: "fsync" }, rows);
    this.#never.promise.catch(() => undefined);
  }

  override async append(...given: Parameters<MemoryLog["append"]>): Promise<number> {
    await turnsOfTheLoop(APPEND_TURNS);
    if (this.appends + 1 === this.loseAt) {
      this.isDying = true;
      this.dying.resolve();
      return this.#never.promise;
    }
    this.appends++;
    return super.append(...given);
  }

  /** Whatever the dead process still waits for fails, so that nothing of it is left. */
  bury(): void {
    this.#never.reject(new HoldfastError("unavailable", "this process is dead"));
  }
}

export class ServedTurn {
  readonly events: AgentServerMessage[] = [];
  /** Chunks of the client. */
  said = 0;
  /** Effects by exec id. */
  readonly effects = new Map<string, number>();
  readonly bugs: unknown[] = [];
  onEvent: (message: AgentServerMessage) => void = () => undefined;
  readonly #model: Model;
  readonly #transport = memoryTransport((meta, wire) => this.#serving.accept(meta, wire), {
    principalOf: () => "user",
  });
  #server: Server | undefined;

  constructor(model: Model) {
    this.#model = model;
  }

  get #serving(): Server {
    assert.ok(this.#server !== undefined, "a server runs");
    return this.#server;
  }

  get wordsTold(): string {
    return this.events.map(textIn).join("");
  }

  /** A process on this disk. */
  async serve(log: CommitLog): Promise<void> {
    const model = this.#model;
    const models: Models = { resolve: () => model, list: () => [] };
    this.#server = createServer({
      store: await openLogStreamStore(log, { now: Date.now }),
      sealing: nodeSealing(),
      application: createAgent({ models }),
      blobs: memoryBlobStore({ now: Date.now }),
      onBug: (bug) => this.bugs.push(bug),
    });
  }

  /** The process is gone, and another one begins on what reached its disk. */
  async die(log: SlowLog): Promise<SlowLog> {
    const dead = this.#serving;
    const next = new SlowLog(log.rows);
    await this.serve(next);
    for (const connection of this.#transport.connections) connection.cut();
    log.bury();
    await dead.shutdown();
    return next;
  }

  /** Asks, and follows the turn to its end. */
  async run(t: Pick<TestContext, "after">, { keepsBlobs = true } = {}): Promise<void> {
    const client = new Client({
      connect: this.#transport.connect,
      sealing: nodeSealing(),
      homeKey: new Uint8Array(32).fill(7),
      stream: { retry: SOON },
      onBug: (bug) => this.bugs.push(bug),
    });
    t.after(async () => {
      await client.close();
      await this.#serving.shutdown();
    });
    const userMessageAction = { userMessage: { text: "Go" } };
    const action = { action: { case: "userMessageAction", value: userMessageAction } } as const;
    const value = { conversationId: "c", keepsBlobs, execKinds: [ExecKind.SHELL_STREAM], action };
    this.said++;
    const stream = await client.open({ first: encode({ case: "runRequest", value }) });
    for await (const { body } of stream.events) {
      if (body.length === 0) continue;
      const message = fromBinary(AgentServerMessageSchema, body);
      this.events.push(message);
      this.onEvent(message);
      this.#answer(stream, message);
    }
    assert.deepEqual(this.bugs, []);
  }

  #answer(stream: ClientStream, { message }: AgentServerMessage): void {
    if (message.case === "execServerMessage") {
      const { id, execId, toolCallId } = message.value;
      this.effects.set(execId, (this.effects.get(execId) ?? 0) + 1);
      const reply = { id, execId, toolCallId, message: shellDone("ok") };
      this.#say(stream, { case: "execClientMessage", value: reply });
    } else if (message.case === "kvServerMessage") {
      const { id } = message.value;
      const kept = { case: "setBlobResult", value: {} } as const;
      this.#say(stream, { case: "kvClientMessage", value: { id, message: kept } });
    }
  }

  #say(stream: ClientStream, message: ClientSays): void {
    this.said++;
    void stream.send(encode(message));
  }
}

export function textIn({ message }: AgentServerMessage): string {
  const update = message.case === "interactionUpdate" ? message.value.message : undefined;
  return update?.case === "textDelta" ? update.value.text : "";
}

function encode(message: ClientSays): Uint8Array {
  return toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
}
