/**
 * A provider outside of every process of the world, and the line that holds its calls: what production reaches by sockets.
 *
 * A generation is written at its own pace, whoever reads it. It breaks off; the model may write on behind the beginning of an answer, or only
 * seem to. With a line, a call outlives the server that sent it and is read again from its first part. The line loses calls, and once in a while a
 * piece of one.
 *
 * Like the line, it knows names, parts and epochs, and decides nothing: a later host takes the place of the one before, an earlier one is refused.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
} from "../../src/agent/index.ts";
import { isFenced } from "../../src/agent/models/line/line-wire.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { CANCELLED, LetGo } from "../../src/protocol/let-go.ts";
import {
  continuing,
  type Generation,
  type Nature,
  type Reader,
  type Written,
  written,
} from "./generation.ts";
import type { ProviderChecks } from "./provider-checks.ts";
import { overWire } from "./wire.ts";
import type { Random, SimProcess, World } from "./world/index.ts";

/** Not `took_over`, which the planted bugs of two readers need: few seeds meet it. */
export const PROVIDER_KINDS: readonly string[] = [
  "provider.attached",
  "provider.broke",
  "provider.gap",
  "provider.lost",
  ...["replay", "restart", "prefill", "unproved", "unjoined", "refused"].map((how) => `provider.${how}`),
];

/** The line keeps a call for so long without a reader. */
const GRACE_MS = 60_000;
/** A generation takes a minute and more, and a host sleeps for half of one. */
const SLOW_PACE_MS = 20_000;
const MODEL_ID = "simulated/fickle";

/** What of the open step of a conversation is text and durable at this moment. */
type DurableText = (conversationId: string) => string;

/** Its answers are read part by part, from bytes, or part by part for a long time. */
export type ProviderKind = "provider" | "wire" | "slow";

type Ways = ReturnType<NonNullable<Model["waysOf"]>>;

export class SimProvider {
  readonly #world: World;
  readonly #random: Random;
  readonly #checks: ProviderChecks;
  readonly #durableText: DurableText;
  /** What it writes goes over a wire, which the production reader reads. */
  readonly #isWired: boolean;
  readonly #nature: Nature;
  readonly #hasLine: boolean;
  /** How long a part takes at most. */
  readonly #paceMs: number;
  readonly #held = new Map<string, Generation>();

  constructor(world: World, checks: ProviderChecks, durableText: DurableText, kind: ProviderKind) {
    this.#world = world;
    this.#random = world.random.fork("provider");
    this.#checks = checks;
    this.#durableText = durableText;
    this.#isWired = kind === "wire";
    this.#nature = this.#random.pick([
      "continues",
      "continues",
      "continues",
      "begins_anew",
      "varies",
      "refuses",
    ]);
    this.#hasLine = this.#random.chance(0.6) || kind === "slow";
    this.#paceMs = kind === "slow" ? SLOW_PACE_MS : this.#random.pick([100, 600, 1_500]);
  }

  /** The models of one life of a server: what it learns of them goes with it. */
  models(process: SimProcess): Models {
    let prefills: Ways["prefills"] = "untried";
    const model: Model = {
      id: MODEL_ID,
      contextTokensMax: 1_000,
      holdsCalls: this.#hasLine,
      call: (call) => this.#call(process, call),
      waysOf: () => ({ continues: "exact", prefills }),
      noteContinued: (_, how) => {
        this.#world.hit(`provider.${how}`);
        if (how === "prefill") prefills = "proved";
        if (how === "refused" || (how === "unjoined" && prefills !== "proved")) prefills = "no";
      },
      done: ({ nameOf, hostEpoch = 0 }) => {
        const held = this.#held.get(nameOf?.(0) ?? "");
        if (process.alive && held !== undefined && !isFenced(hostEpoch, held)) this.#forget(held);
      },
    };
    return {
      resolve: () => model,
      list: () => [{ id: model.id, provider: "simulated", isDefault: true, contextTokensMax: 1_000 }],
    };
  }

  /** The line dies, with everything that it holds. */
  loseLine(): void {
    for (const generation of this.#held.values()) {
      this.#world.hit("provider.lost");
      this.#forget(generation);
      if (generation.state === "running") generation.state = "broken";
      generation.reader?.wake();
    }
  }

  async *#call(process: SimProcess, call: ModelCall): AsyncGenerator<ModelPart> {
    const { signal, mode, nameOf, hostEpoch = 0 } = call;
    const name = this.#hasLine ? nameOf?.(0) : undefined;
    const found = mode === "fresh" ? undefined : this.#held.get(name ?? "");
    if (found === undefined && mode === "attach") throw new ModelFailure("not_held", "the call is not held");
    if (found === undefined) await call.requests?.take();
    // A dead process sends nothing.
    if (!process.alive) await new Promise(() => undefined);
    signal.throwIfAborted();
    // A name that is held is not asked for twice, also where it was not looked for.
    const held = this.#held.get(name ?? "");
    const generation = held ?? this.#begin(call, name);
    if (isFenced(hostEpoch, generation)) throw broken();
    if (held !== undefined) this.#readAgain(held);
    if (!this.#isWired) return yield* this.#read(generation, process, hostEpoch, signal);
    yield* overWire(call, {
      world: this.#world,
      process,
      random: this.#random,
      modelId: MODEL_ID,
      read: (left) => this.#read(generation, process, hostEpoch, left),
    });
  }

  #readAgain(generation: Generation): void {
    this.#world.hit("provider.attached");
    generation.attaches++;
    const { conversationId, parts } = generation;
    const at = parts.findIndex(({ kind }) => kind === "text");
    const part = parts[at];
    // What the log does not have cannot be missed by anybody.
    const isLogged = part?.kind === "text" && this.#durableText(conversationId).startsWith(part.text);
    if (!isLogged || part.text.trim() === "" || !this.#random.chance(0.15)) return;
    this.#world.hit("provider.gap");
    generation.gapAt = at;
  }

  async *#read(
    generation: Generation,
    process: SimProcess,
    epoch: number,
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart, void> {
    // Over a wire it may have died since it asked: a dead process reads nothing.
    if (!process.alive) await new Promise(() => undefined);
    const reader = this.#attach(generation, process, epoch);
    const wakes = (): void => reader.wake();
    signal.addEventListener("abort", wakes, { once: true });
    let at = 0;
    let isRead = false;
    try {
      while (!isRead) {
        signal.throwIfAborted();
        if (generation.reader !== reader) throw broken();
        const part = at < generation.said ? generation.parts[at] : undefined;
        if (part !== undefined) {
          const isMissing = at === generation.gapAt;
          at++;
          isRead = part.kind === "finish";
          if (!isMissing) yield part;
        } else if (generation.state === "running") {
          const { promise, resolve } = Promise.withResolvers<void>();
          reader.wake = () => process.notify(resolve);
          await promise;
        } else throw broken();
      }
    } finally {
      signal.removeEventListener("abort", wakes);
      if (process.alive) this.#leave(generation, reader, isRead, signal);
    }
  }

  #attach(generation: Generation, process: SimProcess, epoch: number): Reader {
    const { reader: before } = generation;
    this.#check(() => this.#checks.attached(generation, process, epoch));
    if (before !== undefined) this.#world.hit("provider.took_over");
    const reader: Reader = { process, epoch, wake: () => undefined };
    generation.reader = reader;
    generation.epoch = epoch;
    generation.wasLetGo = false;
    before?.wake();
    process.onCrash(() => {
      if (generation.reader !== reader) return;
      generation.wasOrphaned = true;
      this.#detach(generation);
    });
    return reader;
  }

  /** What a reader says when it goes. One whose place another has taken says it as well, and the line does not hear it. */
  #leave(generation: Generation, reader: Reader, isRead: boolean, signal: AbortSignal): void {
    const isLetGo = isRead || (signal.aborted && signal.reason instanceof LetGo);
    if (generation.reader !== reader) {
      const isHeard = generation.name !== undefined && !isFenced(reader.epoch, generation);
      if (isHeard && !isLetGo) this.#check(() => this.#checks.cancelled(generation, reader.epoch));
      return;
    }
    if (isLetGo) {
      generation.wasLetGo = !isRead;
      this.#detach(generation);
      return;
    }
    generation.reader = undefined;
    this.#forget(generation);
    if (generation.state !== "running") return;
    generation.state = "stopped";
    generation.wasAborted = signal.aborted && !isUsersStop(signal.reason);
  }

  /** Without a line the provider sees a connection that is closed. */
  #detach(generation: Generation): void {
    generation.reader = undefined;
    const { attaches } = generation;
    if (generation.name === undefined) {
      if (generation.state === "running") generation.state = "stopped";
      return;
    }
    this.#world.enqueue(GRACE_MS, () => {
      if (generation.reader !== undefined || generation.attaches !== attaches) return;
      this.#forget(generation);
      if (generation.state === "running") generation.state = "expired";
    });
  }

  #forget(generation: Generation): void {
    if (generation.name !== undefined) this.#held.delete(generation.name);
    generation.name = undefined;
  }

  #begin(call: ModelCall, name: string | undefined): Generation {
    const { conversationId, messages, hostEpoch = 0, prefill } = call;
    const random = this.#random;
    if (prefill !== undefined && this.#nature === "refuses")
      throw new ModelFailure("invalid_request", "the last message must be the user's");
    const answers = messages.filter(({ role }) => role === "assistant").length;
    // What became durable right before is looked at first.
    this.#durableText(conversationId);
    const said = this.#written(call, answers);
    const breaks = random.chance(prefill === undefined ? 0.35 : 0.25);
    const generation: Generation = {
      ...said,
      conversationId,
      answers,
      degradedStep: call.nameOf === undefined ? call.requests : undefined,
      name,
      breaksAt: breaks ? random.int(said.parts.length) : said.parts.length,
      said: 0,
      state: "running",
      epoch: hostEpoch,
      reader: undefined,
      wasOrphaned: false,
      wasLetGo: false,
      wasAborted: false,
      attaches: 0,
      gapAt: undefined,
    };
    this.#world.trace("provider", `asked, ${call.mode}`, conversationId, answers, prefill);
    this.#check(() => this.#checks.began(generation, hostEpoch));
    if (name !== undefined) this.#held.set(name, generation);
    this.#write(generation);
    return generation;
  }

  #written(call: ModelCall, answers: number): Written {
    const random = this.#random;
    const { prefill, conversationId } = call;
    const origin =
      prefill === undefined ? undefined : this.#checks.originOf(conversationId, answers, prefill);
    if (prefill === undefined) return written(random, call);
    if (origin === undefined || this.#nature === "varies") return written(random, call, "Anew");
    if (this.#nature === "continues" && random.chance(0.8))
      return continuing(random, origin, prefill, call.tools.length > 0);
    // From its first word on.
    return { ...continuing(random, origin, "", false), text: "" };
  }

  /** The turn that called would take the verdict for a failure of its own. */
  #check(check: () => void): void {
    try {
      check();
    } catch (violation) {
      this.#world.fail(violation);
    }
  }

  #write(generation: Generation): void {
    const pauseMs = this.#random.chance(0.3) ? this.#random.int(this.#paceMs) : this.#random.int(30);
    this.#world.enqueue(pauseMs, () => {
      if (generation.state !== "running") return;
      if (generation.said === generation.breaksAt && generation.breaksAt < generation.parts.length) {
        this.#world.hit("provider.broke");
        generation.state = "broken";
      } else if (++generation.said === generation.parts.length) generation.state = "whole";
      else this.#write(generation);
      generation.reader?.wake();
    });
  }
}

/**
 * A cancel or an abort. It stops the call when the host accepts it, before it is durable (D3): a host that then loses the stream has not let go
 * of a call that it should have kept. The next host asks again until the client, which keeps what was not confirmed, has said the stop again.
 */
export function isUsersStop(reason: unknown): boolean {
  if (reason instanceof HoldfastError) return reason.code === "stream_ended";
  // The reader of a wire leaves with the platform's own reason.
  return reason === CANCELLED || (reason instanceof DOMException && reason.name === "AbortError");
}

function broken(): ModelFailure {
  return new ModelFailure("unavailable", "the connection to the provider broke", { isPassing: true });
}
