/**
 * A server whose agent follows a script, and clients with conversations, in one process: memory transport and
 * stores, everything else as in production. A client's process can die.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "../../../src/protocol/message.ts";
import { bytesOfHex } from "../../../src/protocol/bytes.ts";
import {
  blobIdOf,
  Client,
  type ClientStores,
  Conversations,
  type ConversationsOptions,
  type JournalStore,
  memoryJournalStore,
  memoryStores,
  type Tools,
  type WriterLocks,
  toolRunner,
} from "../../../src/client/index.ts";
import { retry } from "../../../src/core/index.ts";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type BlobKind,
  type ConversationStateSchema,
  type InteractionUpdateSchema,
  type RunRequest,
} from "../../../src/protocol/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { type Application, type ApplicationStream, createServer } from "../../../src/server/index.ts";
import { memoryBlobStore, MemoryLog, openLogStreamStore } from "../../../src/store/index.ts";
import {
  type Connect,
  type Environment,
  memoryTransport,
  systemEnvironment,
} from "../../../src/transport/index.ts";
import { HOME_KEY, PRINCIPAL } from "../../e2e/rig.ts";

const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };

export type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
type ServerMessage = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;

export function encodeServer(message: ServerMessage): Uint8Array {
  return toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message }));
}

export const encodeUpdate = (message: Update): Uint8Array =>
  encodeServer({ case: "interactionUpdate", value: { message } });

/** What a script can do. */
export class Talk {
  readonly stream: ApplicationStream;
  readonly request: RunRequest;
  readonly #heard: AgentClientMessage[] = [];
  #waiting: (() => void)[] = [];
  #lastKv = 0;

  constructor(stream: ApplicationStream, request: RunRequest) {
    this.stream = stream;
    this.request = request;
  }

  hear(message: AgentClientMessage): void {
    this.#heard.push(message);
    for (const go of this.#waiting.splice(0)) go();
  }

  /** The first message that this makes something of. */
  async until<Found>(find: (message: AgentClientMessage["message"]) => Found | undefined): Promise<Found> {
    for (let at = 0; ; at++) {
      while (at >= this.#heard.length) {
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push(resolve);
          this.stream.signal.addEventListener("abort", () => reject(new Error("aborted")));
        });
      }
      const message = this.#heard[at]?.message;
      const found = message === undefined ? undefined : find(message);
      if (found !== undefined) return found;
    }
  }

  count(isOne: (message: AgentClientMessage["message"]) => boolean): number {
    return this.#heard.filter(({ message }) => isOne(message)).length;
  }

  send(message: ServerMessage): Promise<number> {
    return this.stream.emit(encodeServer(message));
  }

  update(message: Update): Promise<number> {
    return this.stream.emit(encodeUpdate(message));
  }

  text(text: string): Promise<number> {
    return this.update({ case: "textDelta", value: { text } });
  }

  /** Has the client keep a blob; its id as bytes, once that is acknowledged. */
  async keep(bytes: Uint8Array, kind: BlobKind): Promise<Uint8Array> {
    const id = ++this.#lastKv;
    const blobId = bytesOfHex(blobIdOf(bytes));
    const isLarge = bytes.length > 64 * 1024;
    if (isLarge) await this.stream.blobs?.put(bytes);
    const value = isLarge ? { blobId, kind } : { blobId, kind, blobData: bytes };
    await this.send({ case: "kvServerMessage", value: { id, message: { case: "setBlobArgs", value } } });
    const result = await this.kvAnswer(id);
    assert.equal(result.case, "setBlobResult");
    assert.equal(result.case === "setBlobResult" ? result.value.error : "", undefined);
    return blobId;
  }

  async fetch(blobId: Uint8Array) {
    const id = ++this.#lastKv;
    await this.send({
      case: "kvServerMessage",
      value: { id, message: { case: "getBlobArgs", value: { blobId } } },
    });
    return this.kvAnswer(id);
  }

  kvAnswer(id: number) {
    return this.until((message) =>
      message.case === "kvClientMessage" && message.value.id === id ? message.value.message : undefined,
    );
  }

  checkpoint(state: MessageInitShape<typeof ConversationStateSchema>): Promise<number> {
    return this.send({ case: "conversationCheckpointUpdate", value: state });
  }

  async end(value: Extract<Update, { case: "turnEnded" }>["value"] = {}): Promise<void> {
    await this.stream.end(encodeUpdate({ case: "turnEnded", value }));
  }
}

/** A server's application from a script. It survives no restart of the server: that is the agent's own concern. */
export function scripted(script: (talk: Talk) => Promise<void>): Application {
  return async (stream) => {
    let talk: Talk | undefined;
    const over = Promise.withResolvers<void>();
    const listen = async (): Promise<void> => {
      for await (const input of stream.inputs) {
        if (input.kind !== "chunk") continue;
        const message = fromBinary(AgentClientMessageSchema, input.body);
        if (talk !== undefined) talk.hear(message);
        else if (message.message.case === "runRequest") {
          talk = new Talk(stream, message.message.value);
          script(talk).then(over.resolve, over.reject);
        }
      }
    };
    listen().catch(over.reject);
    try {
      await over.promise;
    } catch (cause) {
      if (!stream.signal.aborted) throw cause;
      await stream.end(encodeUpdate({ case: "turnEnded", value: { reason: 2 } })).catch(() => undefined);
    }
  };
}

export interface ClientProcess {
  readonly client: Client;
  readonly conversations: Conversations;
  kill(): void;
}

export interface ProcessOptions extends Partial<ConversationsOptions> {
  readonly clientTools?: (conversations: () => Conversations) => Tools;
  readonly writerLocks?: WriterLocks;
  readonly retryLookbackWindowMs?: number;
}

/** What outlives a client's process. */
export interface Disk {
  readonly journals: JournalStore;
  readonly stores: ClientStores;
}

export const newDisk = (): Disk => ({ journals: memoryJournalStore(), stores: memoryStores() });

/** A dead process gets nothing more onto its disk. */
function dyingWith({ journals, stores: { blobs, records } }: Disk, isDead: () => boolean): Disk {
  const alive = <Result>(write: () => Promise<Result>): Promise<Result> =>
    isDead() ? Promise.reject(new Error("this process is dead")) : write();
  return {
    journals: {
      ...journals,
      append: (name, added) => alive(() => journals.append(name, added)),
      replace: (name, added) => alive(() => journals.replace(name, added)),
      remove: (name) => alive(() => journals.remove(name)),
    },
    stores: {
      blobs: { ...blobs, put: (id, bytes) => alive(() => blobs.put(id, bytes)) },
      records: { ...records, put: (record) => alive(() => records.put(record)) },
    },
  };
}

export class AgentRig {
  readonly bugs: unknown[] = [];
  readonly #transport;

  private constructor(transport: ReturnType<typeof memoryTransport>) {
    this.#transport = transport;
  }

  static async start(t: TestContext, application: Application): Promise<AgentRig> {
    const store = await openLogStreamStore(new MemoryLog({ durability: "fsync" }), { now: Date.now });
    const server = createServer({
      store,
      sealing: nodeSealing(),
      application,
      blobs: memoryBlobStore({ now: Date.now }),
      onBug: (bug) => rig.bugs.push(bug),
    });
    const transport = memoryTransport(server.accept, { principalOf: () => PRINCIPAL, blobs: server.blobs });
    const rig = new AgentRig(transport);
    t.after(async () => {
      await Promise.all(rig.#clients.map((client) => client.close()));
      await server.shutdown();
      assert.deepEqual(rig.bugs, []);
    });
    return rig;
  }

  readonly #clients: Client[] = [];

  cut(): void {
    for (const connection of this.#transport.connections) connection.cut();
  }

  process(
    disk: Disk = newDisk(),
    { clientTools, writerLocks, retryLookbackWindowMs, ...options }: ProcessOptions = {},
  ): ClientProcess {
    let isDead = false;
    const wires = new Set<{ end(): void }>();
    const timers = new Set<() => void>();
    const environment: Environment = {
      ...systemEnvironment(),
      after(delayMs, run) {
        if (isDead) return () => undefined;
        const cancel = systemEnvironment().after(delayMs, run);
        timers.add(cancel);
        return cancel;
      },
    };
    const connect: Connect = (meta, handler) => {
      if (isDead) return { write: () => 0, end: () => undefined };
      const wire = this.#transport.connect(meta, {
        received: (frame) => {
          if (!isDead) handler.received(frame);
        },
        drained: () => handler.drained(),
        closed: (reason) => {
          if (!isDead) handler.closed(reason);
        },
      });
      wires.add(wire);
      return wire;
    };
    const onBug = (bug: unknown): void => void this.bugs.push(bug);
    const tools = clientTools?.(() => conversations);
    const { journals, stores } = dyingWith(disk, () => isDead);
    const client: Client = new Client<Uint8Array>({
      connect,
      blobs: this.#transport.blobs,
      sealing: nodeSealing(),
      homeKey: HOME_KEY,
      environment,
      journals,
      stream: { retry: SOON, ...(retryLookbackWindowMs === undefined ? {} : { retryLookbackWindowMs }) },
      onBug,
      ...(tools === undefined ? {} : { tools: toolRunner(tools) }),
      ...(writerLocks === undefined ? {} : { writerLocks }),
    });
    const conversations = new Conversations({ client, ...stores, onBug, ...options });
    this.#clients.push(client);
    const kill = (): void => {
      isDead = true;
      for (const wire of wires) wire.end();
      for (const cancel of timers) cancel();
    };
    return { client, conversations, kill };
  }
}
