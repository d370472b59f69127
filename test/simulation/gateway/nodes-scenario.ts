/**
 * One seed of a gateway on two nodes that share a database: each request of a client goes to any node, its retry to another, sometimes to both at once; a tool's results
 * wherever they arrive; the rest of an answer is read at the other node. Nodes are killed, stopped in order, and sleep for longer than their lease.
 *
 * What runs is production from `Gateway.chat` down, as in the worlds of one node. These have a reference that says of every request what it gets; here four rules
 * are checked, that no order of events between nodes may break:
 *
 * - an answer that was told whole is told the same to whoever asks for it again, at whichever node;
 * - the model is asked once for a step, and once more at most for each time that a node was killed, closed or slept, or that a response broke;
 * - in a world in which nothing goes wrong it is asked exactly once;
 * - when nothing goes wrong any more, each client gets its answer.
 */
import { GATEWAY_LIMITS } from "../../../src/gateway/index.ts";
import { parseChatRequest } from "../../../src/gateway/openai/index.ts";
import { fail } from "../log-checks.ts";
import type { SeedResult } from "../scenario.ts";
import { type Random, World, WorldFailure } from "../world/index.ts";
import { Exchange, newShown, type ResponseEnd, type Shown } from "./exchange.ts";
import { GatewayNode } from "./gateway-node.ts";
import { MODEL_IDS, Provider } from "./provider.ts";
import { LEASE_MS, SharedDatabase } from "./shared-database.ts";

const MINUTE_MS = 60_000;
const CALM_MS_MAX = 30 * MINUTE_MS;
const CALM_STEPS_MAX = 200_000;
const CLIENTS = 3;
const STEPS_MAX = 5;
const PACE_MS = 1_500;
/** After so long sessions rest, in one world and in another. */
const REST_MS: readonly number[] = [200, GATEWAY_LIMITS.restMs];
const PRINCIPAL = "ada";
const TOOL = { type: "function", function: { name: "look", parameters: { type: "object" } } };

/** What a campaign must have met. */
export const NODES_KINDS = [
  ...["answer", "results", "events", "look", "replayed", "broken"].map((kind) => `gateway_nodes.got.${kind}`),
  "gateway_nodes.fault.slept",
  "gateway_nodes.fault.closed",
  ...["late", "read_back", "undone", "unknown"].map((kind) => `driver.${kind}`),
  "process.crash",
];

/** Rejects with `WorldFailure` when nodes do to each other what they must not. */
export async function runNodesSeed(seed: number, print?: (line: string) => void): Promise<SeedResult> {
  const world = new World(seed, { print });
  try {
    await new NodesScenario(world).run();
  } catch (cause) {
    throw cause instanceof WorldFailure ? cause : new WorldFailure(world, cause);
  }
  const { steps, nowMs: simulatedMs, traceHash, counters } = world;
  return { steps, simulatedMs, traceHash, hits: counters.toJSON() };
}

type Json = Readonly<Record<string, unknown>>;

class NodesScenario {
  readonly #world: World;
  readonly #random: Random;
  readonly #provider: Provider;
  readonly #nodes: readonly GatewayNode[];
  readonly #open = new Map<GatewayNode, Set<Exchange>>();
  /** Nothing goes wrong in this world. */
  readonly #isPeaceful: boolean;
  #isCalm = false;
  /** Kills, closes and sleeps so far, and responses that broke. */
  #troubles = 0;
  /** How often a page has read an answer to its end. It is delivered then, so the same results without a key ask for another one. */
  readonly #seenWhole = new Map<string, number>();
  #idle = 0;
  #requests = 0;

  constructor(world: World) {
    this.#world = world;
    this.#random = world.random.fork("nodes scenario");
    this.#isPeaceful = this.#random.chance(0.3);
    this.#provider = new Provider(world);
    // What providers do is the subject of the other worlds.
    this.#provider.isCalm = true;
    const database = new SharedDatabase(world, this.#isPeaceful);
    const restMs = world.random.fork("rest").pick(REST_MS);
    const limits = { ...GATEWAY_LIMITS, graceMs: MINUTE_MS, sessionTtlMs: 10 * MINUTE_MS, restMs };
    this.#nodes = ["node-a", "node-b"].map((name) => {
      const shared = { name, database };
      const node = new GatewayNode({
        world,
        provider: this.#provider,
        limits,
        retentionMs: 30 * MINUTE_MS,
        shared,
      });
      this.#open.set(node, new Set());
      node.onDown = (why) => this.#down(node, why);
      return node;
    });
  }

  async run(): Promise<void> {
    const world = this.#world;
    for (const node of this.#nodes) node.boot();
    for (let at = 0; at < CLIENTS; at++)
      this.#talk(`client ${at}`).catch((cause: unknown) => world.fail(cause));
    if (!this.#isPeaceful) this.#nextFault();
    await world.run({ untilMs: 5_000 + this.#random.int(40_000) });
    this.#isCalm = true;
    const { reason } = await world.run({
      untilMs: world.nowMs + CALM_MS_MAX,
      stepsMax: CALM_STEPS_MAX,
      stop: () => this.#idle === CLIENTS,
    });
    if (reason !== "stopped" && this.#idle < CLIENTS)
      fail("F1", "a client of two nodes waits for ever, though nothing goes wrong any more");
  }

  async #talk(name: string): Promise<void> {
    const random = this.#world.random.fork(name);
    for (let marker = 1; ; marker++) {
      const messages: Json[] = [{ role: "user", content: `m${marker} of ${name}.` }];
      let streamId: string | undefined;
      for (let step = 0; step < STEPS_MAX; step++) {
        const id = `m${marker} of ${name}./${messages.filter(({ role }) => role === "tool").length}`;
        const told = await this.#answered(id, messages, streamId, random);
        const { text, calls } = told;
        streamId = told.streamId;
        if (calls.length === 0) break;
        const tool_calls = calls.map(({ id: call, name: tool, args }) => ({
          id: call,
          type: "function",
          function: { name: tool, arguments: args },
        }));
        messages.push({ role: "assistant", content: text, tool_calls });
        for (const { id: call } of calls)
          messages.push({ role: "tool", tool_call_id: call, content: `of ${id}` });
        // Some tools take so long that their session rests.
        if (random.chance(0.3)) await this.#pause(random.int(PACE_MS));
      }
      if (this.#isCalm) break;
      await this.#pause(random.int(PACE_MS));
    }
    this.#idle++;
  }

  /** Asks until the whole answer is there, and then once more, elsewhere. `turn`: the stream whose tools these messages have the results of. */
  async #answered(
    id: string,
    messages: readonly Json[],
    turn: string | undefined,
    random: Random,
  ): Promise<Shown> {
    const isResults = turn !== undefined;
    // A node that sleeps has its trouble before it.
    const before = this.#troubles - this.#nodes.filter(({ process }) => process.paused).length;
    // Results are known by the session that waits for them, and need no key.
    const key = isResults ? undefined : `key of ${id}`;
    let told: Shown | undefined;
    for (;;) {
      const isBoth = random.chance(0.4);
      const asked = isBoth ? this.#nodes : [random.pick(this.#nodes)];
      const ends = await Promise.all(asked.map((node) => this.#ask(node, id, messages, key)));
      for (const { shown, end } of ends) {
        if (end.kind === "whole") told = this.#same(id, told, shown);
        else this.#world.hit(`gateway_nodes.got.${end.kind === "error" ? end.code : end.kind}`);
      }
      if (told !== undefined) break;
      // A page that shows the stream asks as well, and has no results to say.
      if (isResults && random.chance(0.5)) this.#looksOn(turn, id, random);
      await this.#pause(200 + random.int(PACE_MS));
    }
    this.#world.hit(isResults ? "gateway_nodes.got.results" : "gateway_nodes.got.answer");
    if (random.chance(0.5)) await this.#elsewhere(id, told, random);
    if (key !== undefined && random.chance(0.5)) {
      const { shown, end } = await this.#ask(random.pick(this.#nodes), id, messages, key);
      if (end.kind === "whole") {
        this.#same(id, told, shown);
        this.#world.hit("gateway_nodes.got.replayed");
      }
    }
    const calls = this.#provider.calls.filter(({ call }) => idOf(call.messages) === id).length;
    const most = 1 + this.#troubles - before + (this.#seenWhole.get(id) ?? 0);
    if (calls > most) fail("G4", `the model was asked ${calls} times for ${id}, ${most} at most`);
    return told;
  }

  #looksOn(turn: string, id: string, random: Random): void {
    this.#world.hit("gateway_nodes.got.look");
    this.#look(turn, id, random).catch((cause: unknown) => this.#world.fail(cause));
  }

  async #look(turn: string, id: string, random: Random): Promise<void> {
    const { end } = await this.#events(turn, id, random);
    if (end.kind === "whole") this.#seenWhole.set(id, (this.#seenWhole.get(id) ?? 0) + 1);
  }

  /** The latest answer of a stream, as `/events` tells it at any node. */
  #events(streamId: string, id: string, random: Random) {
    const node = random.pick(this.#nodes);
    const requestId = `e${++this.#requests}`;
    this.#world.trace(node.process.name, "is asked", requestId, "for the rest of", id);
    return this.#exchange(node, requestId, (gateway, signal) =>
      gateway.events({ principal: PRINCIPAL, streamId, after: undefined, signal }),
    );
  }

  async #elsewhere(id: string, told: Shown, random: Random): Promise<void> {
    const { shown, end } = await this.#events(told.streamId, id, random);
    if (end.kind !== "whole") return;
    this.#same(id, told, shown);
    this.#world.hit("gateway_nodes.got.events");
  }

  #same(id: string, told: Shown | undefined, shown: Shown): Shown {
    if (told === undefined) return shown;
    // Results without a key that two nodes get, one of which then sleeps or dies, may be answered by two streams.
    const isOther = told.streamId !== shown.streamId || told.fromEvent !== shown.fromEvent;
    if (isOther && !id.endsWith("/0") && !this.#isPeaceful) return told;
    const [one, other] = [told, shown].map(({ text, calls }) => JSON.stringify([text, calls]));
    if (one !== other) fail("G1", `${id} was answered with ${one} and then with ${other}`);
    return told;
  }

  #ask(node: GatewayNode, id: string, messages: readonly Json[], key: string | undefined) {
    const json = { model: MODEL_IDS[0], stream: true, tools: [TOOL], messages };
    const body = JSON.stringify(json);
    const requestId = `r${++this.#requests}`;
    this.#world.trace(node.process.name, "is asked", requestId, "for", id);
    return this.#exchange(node, requestId, (gateway, signal) =>
      gateway.chat({
        principal: PRINCIPAL,
        bodyHash: body,
        bodyBytes: body.length,
        idempotencyKey: key,
        retrySign: "none",
        parkedMax: 1_000,
        requestId,
        signal,
        request: parseChatRequest(json),
      }),
    );
  }

  async #exchange(
    node: GatewayNode,
    requestId: string,
    ask: ConstructorParameters<typeof Exchange>[0]["ask"],
  ): Promise<{ readonly shown: Shown; readonly end: ResponseEnd }> {
    const { gateway, process } = node;
    const shown = newShown();
    if (gateway === undefined) return { shown, end: { kind: "broken" } };
    const nothing = (): void => undefined;
    const telling = { read: nothing, over: nothing, arrived: nothing, failed: nothing };
    const exchange = new Exchange({
      world: this.#world,
      process,
      gateway,
      ask,
      shown,
      isStreamed: true,
      paceMs: () => this.#random.int(20),
      arrival: { kind: "confirmed", afterMs: 1 },
      decision: { decided: () => telling, refused: nothing, left: nothing },
    });
    const open = this.#open.get(node);
    open?.add(exchange);
    if (!process.alive) exchange.killed();
    const end = await exchange.ended;
    open?.delete(exchange);
    this.#world.trace(process.name, "has answered", requestId, end.kind);
    if (end.kind !== "whole") this.#troubles++;
    return { shown, end };
  }

  #down(node: GatewayNode, why: "killed" | "closing"): void {
    this.#troubles++;
    for (const exchange of this.#open.get(node) ?? []) {
      if (why === "killed") exchange.killed();
      else exchange.shutDown();
    }
  }

  #nextFault(): void {
    this.#world.enqueue(500 + this.#random.int(8_000), () => {
      if (this.#isCalm) return;
      this.#fault();
      this.#nextFault();
    });
  }

  #fault(): void {
    const random = this.#random;
    const node = random.pick(this.#nodes);
    this.#troubles++;
    switch (random.int(5)) {
      case 0:
        node.process.crash();
        return;
      case 1:
      case 2:
        node.process.crashAtEffect(1 + random.int(40));
        return;
      case 3:
        this.#world.hit("gateway_nodes.fault.slept");
        node.process.pause(LEASE_MS + random.int(LEASE_MS));
        return;
      default:
        this.#world.hit("gateway_nodes.fault.closed");
        node.close().catch((cause: unknown) => this.#world.fail(cause));
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#world.enqueue(ms, resolve));
  }
}

/** Which request a prompt is for: its user message, and how many results stand behind it. */
function idOf(messages: readonly { readonly role: string; readonly content: unknown }[]): string {
  const text = JSON.stringify(messages);
  const [marker = ""] = /m\d+ of client \d\./.exec(text) ?? [];
  return `${marker}/${text.split('"type":"tool-result"').length - 1}`;
}
