/**
 * A conversation of two turns with the production agent and the production client, and one crash.
 *
 * The world is calm but for that crash, so the conversation must come out as if there had been none, but for
 * what the user must be told: that the outcome of a tool is not known.
 */
import { createAgent } from "../../src/agent/index.ts";
import type { ChatMessage } from "../../src/protocol/chat-message.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { TurnEndReason } from "../../src/protocol/messages.ts";
import { TurnChecks } from "./agent-checks.ts";
import { type CalledModel, simulatedModels } from "./agent-model.ts";
import { SimUser } from "./agent-user.ts";
import { Workbench } from "./agent-workbench.ts";
import { Cluster } from "./cluster.ts";
import { checkedAccept } from "./frame-checks.ts";
import { Ledger } from "./ledger.ts";
import { fail } from "./log-checks.ts";
import { Truth } from "./truth.ts";
import {
  type CrashWhen,
  type EffectKind,
  SimNetwork,
  type SimProcess,
  World,
  WorldFailure,
} from "./world/index.ts";

export type AgentCrash = { readonly who: "server" | "client" } & (
  | /** The number of the call that leaves the process: 1 is its first. */ {
      readonly effect: number;
      readonly when: CrashWhen;
    }
  /** When so many events are durable, or were taken by the client. */
  | { readonly event: number }
);

/** Where the processes could have died in a conversation in which none did. */
export interface CrashPoints {
  readonly server: readonly AgentCrash[];
  readonly client: readonly AgentCrash[];
  readonly events: number;
  readonly taken: number;
}

/** What came of a conversation. */
export interface Conversed {
  /** Per turn the text of each step. */
  readonly texts: readonly (readonly string[])[];
  readonly prompts: readonly CalledModel[];
  /** The messages of the last checkpoint, as the client has them. */
  readonly messages: readonly ChatMessage[];
  readonly turns: number;
  readonly commands: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly execs: number;
  readonly effects: number;
  readonly unknown: number;
  readonly restarts: number;
  readonly crashes: number;
  readonly points: CrashPoints;
  readonly traceHash: string;
}

/** A sync is asked for together with its write; what counts is when the disk has done it. */
const HARMLESS: ReadonlySet<EffectKind> = new Set(["timer", "disk.read", "disk.sync"]);

const PRINCIPAL = "user";
const SERVER = "server";
/** Far more than any retry or lease takes. */
const CALM_MS_MAX = 1_800_000;
const CALM_STEPS_MAX = 50_000;

export interface ConverseOptions {
  readonly seed: number;
  /** The first is the one with tools, the second goes on from it. */
  readonly turns: number;
}

export async function converse({ seed, turns }: ConverseOptions, crash?: AgentCrash): Promise<Conversed> {
  const world = new World(seed);
  const scenario = new AgentScenario(world, turns);
  try {
    return await scenario.run(crash);
  } catch (cause) {
    throw cause instanceof WorldFailure ? cause : new WorldFailure(world, cause);
  }
}

class AgentScenario {
  readonly #world: World;
  readonly #turns: number;
  readonly #checks: TurnChecks;
  readonly #truth: Truth;
  readonly #cluster: Cluster;
  readonly #user: SimUser;
  readonly #workbench: Workbench;
  readonly #calls: CalledModel[] = [];

  constructor(world: World, turns: number) {
    this.#world = world;
    this.#turns = turns;
    const random = world.random.fork("agent scenario");
    const homeKey = random.bytes(32);
    const sealing = nodeSealing();
    const streamKeyOf = (idempotencyKey: string): Uint8Array =>
      sealing.deriveStreamKey(homeKey, idempotencyKey);
    const network = new SimNetwork(world, { codec: false });
    const ledger = new Ledger(world);
    this.#checks = new TurnChecks(world);
    this.#workbench = new Workbench(world);
    const isRightful = ({ principal, idempotencyKey, streamKey }: FrameMeta): boolean =>
      principal === PRINCIPAL && sealing.equal(streamKey, streamKeyOf(idempotencyKey));
    this.#cluster = new Cluster(world, network, {
      shared: false,
      retentionMs: CALM_MS_MAX,
      pauseBytes: 100_000,
      slowReaderMs: 30_000,
      application: (process) =>
        createAgent({
          models: simulatedModels(process, (call) => this.#called(call)),
          environment: process.env,
        }),
      observe: (accept, process) =>
        checkedAccept(
          { world, truth: this.#truth, ledger, isRightful, waitingBytesMax: 1_000_000, process },
          accept,
        ),
    });
    this.#truth = new Truth(this.#cluster.disk, streamKeyOf, this.#checks);
    const known = { homeKey, principal: PRINCIPAL, server: SERVER, turns };
    this.#user = new SimUser({ world, network, workbench: this.#workbench, ...known });
    world.afterStep(() => this.#truth.refresh());
  }

  async run(crash: AgentCrash | undefined): Promise<Conversed> {
    const world = this.#world;
    this.#cluster.start();
    const [server] = this.#cluster.processes;
    const { process: client } = this.#user;
    if (server === undefined) throw new Error("there is a server");
    if (crash !== undefined) this.#plan(crash);
    const points = {
      server: pointsOf(world, "server", server),
      client: pointsOf(world, "client", client),
    };
    await world.run({ untilMs: 100 });
    this.#user.boot();
    const untilMs = world.nowMs + CALM_MS_MAX;
    await world.run({ untilMs, stepsMax: CALM_STEPS_MAX, stop: () => this.#isDone() });
    return this.#result({ ...points, events: this.#checks.events, taken: this.#user.taken });
  }

  #plan(crash: AgentCrash): void {
    const processOf = () => (crash.who === "server" ? this.#cluster.processes[0] : this.#user.process);
    if ("effect" in crash) {
      processOf()?.crashAtEffect(crash.effect, crash.when);
      return;
    }
    const crashAt = (count: number): void => {
      if (count === crash.event) processOf()?.crash();
    };
    if (crash.who === "server") this.#checks.onEvent = crashAt;
    else this.#user.onTaken = crashAt;
  }

  /** A model is called for the step that is next in the log, and for no other (C0). */
  #called(call: CalledModel): void {
    this.#truth.refresh();
    const finished = this.#checks.turns.reduce((sum, { steps }) => sum + steps, 0);
    if (call.answers !== finished) {
      this.#world.fail(
        new Error(`C0: the model is called for step ${call.answers}, ${finished} are finished`),
      );
    }
    this.#calls.push(call);
  }

  /** Everything is answered, and everybody has heard of it. */
  #isDone(): boolean {
    return this.#user.kept !== undefined;
  }

  #result(points: CrashPoints): Conversed {
    const { kept } = this.#user;
    const { turns } = this.#checks;
    if (kept === undefined) return fail("F1", "the conversation never comes to its end");
    if (turns.length !== this.#turns) fail("A7", `${turns.length} turns were run for ${this.#turns} prompts`);
    for (const { end } of turns) if (end !== TurnEndReason.COMPLETED) fail("F1", `a turn ended as ${end}`);
    checkPrefixes(this.#calls);
    const last = turns.at(-1)?.lastCheckpoint;
    if (last?.messages.length !== kept.messages.length)
      fail("C4", "the client has another checkpoint than the log");
    const outcomes = turns.flatMap((turn) => [...turn.outcomes.values()]);
    return {
      texts: turns.map(({ texts }) => texts),
      prompts: this.#calls,
      messages: kept.messages,
      turns: kept.full.turns.length,
      commands: this.#workbench.commands,
      files: Object.fromEntries(this.#workbench.files),
      execs: turns.reduce((sum, { execs }) => sum + execs.size, 0),
      effects: [...this.#workbench.effects.values()].reduce((sum, count) => sum + count, 0),
      unknown: outcomes.filter((outcome) => outcome === "unknown").length,
      restarts: turns.reduce((sum, { restarts }) => sum + restarts, 0),
      crashes: this.#world.counters.of("process.crash"),
      points,
      traceHash: this.#world.traceHash,
    };
  }
}

/**
 * Before and after every call. Within one step of the world nothing happens between two calls: after the one is
 * before the other. And some calls change nothing outside.
 */
function pointsOf(world: World, who: AgentCrash["who"], process: SimProcess): readonly AgentCrash[] {
  const points: AgentCrash[] = [];
  let step = -1;
  process.onEffect = (kind) => {
    const effect = process.effects;
    if (world.steps !== step) points.push({ who, effect, when: "before" });
    if (!HARMLESS.has(kind)) points.push({ who, effect, when: "after" });
    step = world.steps;
  };
  return points;
}

type FrameMeta = Parameters<Parameters<typeof checkedAccept>[0]["isRightful"]>[0];

/** Each prompt begins with the one before; the prompt of a restarted step is the same (WIRE: prompt caches). */
function checkPrefixes(calls: readonly CalledModel[]): void {
  let before: readonly string[] = [];
  for (const { prompt } of calls) {
    const isPrefix = before.every((message, at) => prompt[at] === message);
    if (!isPrefix || prompt.length < before.length)
      fail("B4", "a prompt does not begin with the one before it");
    before = prompt;
  }
}
