/**
 * Three `holdfast serve` processes on one PostgreSQL behind a round-robin proxy, faults, and a checker that reads the database and the clients' transcripts.
 *
 * Each client counts, calls a tool, and counts again. Whatever is killed or stopped meanwhile: its transcript is the log, byte for byte; what it said is in the log once; its tool
 * ran once at most; and its stream ends.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client, type StreamEvent, toolRunner, type Tools } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { StreamLogs } from "../../src/server/stream-logs.ts";
import type { StreamStore } from "../../src/store/index.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { Cli, type Running } from "../cli/cli-process.ts";
import { echoTools, userMessage, wordOf } from "../cli/rehearsal-messages.ts";
import type { Cleanup } from "../cleanup.ts";

export const LEASE_MS = 1_500;
const DRAIN_MS = 20_000;
const COUNT = 12;
const PRINCIPAL = "default";
const WORK = `count to ${COUNT} every 40 ms\ntool hello\nthen\ncount to ${COUNT} every 40 ms\nsay the result`;

export interface ClusterNode {
  /** By which leases know it. */
  readonly hostId: string;
  readonly running: Running;
  readonly port: number;
  kill(): Promise<void>;
  /** Again; `drainMs` is for how long its next drain lets answers run. */
  start(drainMs?: number): Promise<void>;
  /** Stopped for so long, as a machine that sleeps. */
  sleep(ms: number): Promise<void>;
  /** Makes an API key. */
  newKey(...limits: readonly string[]): Promise<string>;
  /** In order: what is under way may end. */
  drain(): Promise<void>;
}

/** A process of its own data directory, that is started again on its port. */
export async function startNode(
  t: Cleanup,
  store: string,
  shared: Readonly<Record<string, string>>,
  settings: object = {},
): Promise<ClusterNode> {
  const cli = new Cli(t, { patienceMs: 15 * 60_000 });
  const config = join(cli.home, "settings.json");
  writeFileSync(config, JSON.stringify({ store, leaseMs: LEASE_MS, storePatienceMs: 60_000, ...settings }));
  const serve = (more: readonly string[] = []): Promise<Running> =>
    cli.serve(["--config", config, "--drain-ms", String(DRAIN_MS), ...more], shared);
  let running = await serve();
  const port = Number(new URL(running.url).port);
  return {
    get running() {
      return running;
    },
    port,
    async kill() {
      running.signal("SIGKILL");
      await running.exit;
    },
    async start(drainMs = DRAIN_MS) {
      running = await serve(["--port", String(port), "--drain-ms", String(drainMs)]);
    },
    hostId: readFileSync(join(cli.dataDir, "holdfast.node-id"), "utf8").trim(),
    async newKey(...limits) {
      const made = await cli.run(["keys", "create", "--data-dir", cli.dataDir, ...limits], shared);
      assert.equal(made.code, 0, made.stderr);
      return made.stdout.trim();
    },
    async drain() {
      running.signal("SIGTERM");
      const { code, stderr } = await running.exit;
      assert.equal(code, 0, stderr);
    },
    async sleep(ms) {
      running.signal("SIGSTOP");
      await new Promise((resolve) => setTimeout(resolve, ms));
      running.signal("SIGCONT");
    },
  };
}

const SOON = { ...retry.DEFAULTS, baseMs: 20, capMs: 300, budget: { burst: 10_000, refillMs: 1 } };

/** What a fault may meet. */
export const PHASES = ["first words", "tool", "later words"] as const;
export type Phase = (typeof PHASES)[number];
/** Long enough to be met. */
const TOOL_MS = 400;

export interface Transcript {
  readonly name: string;
  readonly events: readonly StreamEvent[];
  readonly end: string;
  readonly toolRuns: number;
}

/** A client that connects anew to whichever node the proxy gives it. */
export class ClusterClient {
  readonly homeKey: Uint8Array = new Uint8Array(randomBytes(32));
  readonly #client: Client;
  readonly #connect: () => { readonly client: Client; readonly end: () => Promise<void> };
  readonly #end: () => Promise<void>;
  toolRuns = 0;
  /** Of its stream, when there is one. */
  name: string | undefined;
  /** In which its stream is, while it runs. */
  phase: Phase | undefined;
  readonly #reached = new Map(PHASES.map((phase) => [phase, Promise.withResolvers<string>()]));

  constructor(url: string, apiKey: string) {
    this.#connect = () => {
      const transport = http2Connect({ url });
      const client = new Client({
        connect: transport.connect,
        sealing: nodeSealing(),
        homeKey: this.homeKey,
        credentials: () => Promise.resolve(apiKey),
        tools: toolRunner(this.#tools()),
        stream: { retry: SOON },
      });
      const end = async (): Promise<void> => {
        await client.close();
        transport.close();
      };
      return { client, end };
    };
    ({ client: this.#client, end: this.#end } = this.#connect());
  }

  #tools(): Tools {
    const tools = echoTools("hello", () => this.toolRuns++);
    return {
      ...tools,
      run: async (...call) => {
        await new Promise((resolve) => setTimeout(resolve, TOOL_MS));
        return tools.run(...call);
      },
    };
  }

  /** Resolves with the stream's name. */
  reached(phase: Phase): Promise<string> {
    return this.#reached.get(phase)?.promise ?? assert.fail();
  }

  async converse(): Promise<Transcript> {
    const stream = await this.#client.open({ first: userMessage(WORK, ["echo"]) });
    this.name = stream.idempotencyKey;
    const events: StreamEvent[] = [];
    let hasCalled = false;
    for await (const event of stream.events) {
      events.push(event);
      const word = wordOf(event.body);
      hasCalled ||= word === "execServerMessage";
      const phase = word === "execServerMessage" ? "tool" : hasCalled ? "later words" : "first words";
      if (word === "execServerMessage" || /\d/.test(word)) {
        this.phase = phase;
        this.#reached.get(phase)?.resolve(stream.idempotencyKey);
      }
    }
    this.phase = undefined;
    const end = String(await stream.ended);
    return { name: stream.idempotencyKey, events, end, toolRuns: this.toolRuns };
  }

  /** Reads the stream from its beginning to its end over a connection of its own, mostly at a node that does not run it. */
  async readAlong(): Promise<readonly StreamEvent[]> {
    const name = await Promise.race(PHASES.map((phase) => this.reached(phase)));
    const { client, end } = this.#connect();
    const stream = await client.follow(name);
    const events: StreamEvent[] = [];
    for await (const event of stream.events) events.push(event);
    await end();
    return events;
  }

  close(): Promise<void> {
    return this.#end();
  }
}

/** Holds what a client saw against what the database has. */
export async function checkTranscript(
  store: StreamStore,
  homeKey: Uint8Array,
  seen: Transcript,
): Promise<void> {
  const sealing = nodeSealing();
  const name = { principal: PRINCIPAL, idempotencyKey: seen.name };
  const found = await store.load(name);
  assert.ok(found.kind === "live", "nothing is lost");
  const { eventHead, nextSeqno, end } = found.state;
  assert.equal(end, "completed", "F1: every stream ends");
  const logs = new StreamLogs(store, name, sealing.sealer(sealing.deriveStreamKey(homeKey, seen.name)));
  const log: { readonly eventId: number; readonly body: Uint8Array }[] = [];
  while (log.length < eventHead) log.push(...(await logs.readEvents(log.length + 1)));
  assert.deepEqual(
    seen.events.map(({ eventId }) => eventId),
    log.map(({ eventId }) => eventId),
    "B1: nothing is lost, doubled or reordered",
  );
  for (const [at, { body }] of seen.events.entries()) {
    assert.deepEqual(
      new Uint8Array(body),
      new Uint8Array(log[at]?.body ?? []),
      "B4: what was seen is what was logged",
    );
  }
  assert.equal(nextSeqno, 2, "A1: the request and the result, once each");
  assert.equal(seen.toolRuns, 1, "C1: the tool ran once");
  const words = seen.events.map(({ body }) => wordOf(body)).join("");
  assert.match(words, /1 2 3 4 5 6 7 8 9 10 11 12 /);
  assert.match(words, /hello/);
}
