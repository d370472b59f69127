/**
 * One request of an OpenAI client and its response, below HTTP: what `gatewayHttp` does with a request whose body was read.
 *
 * The client sees frames, as they are written, at its own pace. It may leave at any moment; the process may die, or close. What became of
 * the response is reported to the gateway as the HTTP layer reports it.
 */
import { z } from "zod";
import type { Answer, EventsCall } from "../../../src/gateway/http/index.ts";
import {
  AnswerCollector,
  type AnswerDelta,
  ChatChunks,
  type ChatCompletion,
  type Frame,
  type FramePlace,
  parseFramePlace,
  toGatewayError,
} from "../../../src/gateway/openai/index.ts";
import type { Gateway } from "../../../src/gateway/index.ts";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { Random, SimProcess, World } from "../world/index.ts";
import type { SimCall } from "./messages.ts";

/** What a client has been shown of one answer, over one or more connections. */
export interface Shown {
  streamId: string;
  fromEvent: number;
  text: string;
  readonly calls: SimCall[];
  finish: string | undefined;
  /** Of the last frame. */
  place: FramePlace | undefined;
}

export function newShown(): Shown {
  return { streamId: "", fromEvent: 0, text: "", calls: [], finish: undefined, place: undefined };
}

export type ResponseEnd =
  /** With a finish reason. */
  | { readonly kind: "whole" }
  /** An error in the gateway's own words. */
  | { readonly kind: "error"; readonly code: string }
  /** Nothing more comes: the process died, or the client left. */
  | { readonly kind: "broken" };

/** What the gateway decided, known as soon as it has. */
export interface Decision {
  readonly decided: (answer: Answer) => Telling;
  readonly refused: (code: string) => void;
  /** It came to nothing, and its client has left anyway. */
  readonly left: () => void;
}

/** Where the reference hears what becomes of a response. */
export interface Telling {
  /** A delta came, before the client has it. */
  read(delta: AnswerDelta): void;
  over(isWhole: boolean): void;
  arrived(arrival: Arrival): void;
  /** What the deltas threw. */
  failed(code: string): void;
}

export type Arrival = Parameters<NonNullable<Answer["arrived"]>>[0];

export interface ExchangeOptions {
  readonly world: World;
  readonly process: SimProcess;
  readonly gateway: Gateway;
  /** Asks for the answer. */
  readonly ask: (gateway: Gateway, signal: AbortSignal) => Promise<Answer>;
  readonly decision: Decision;
  readonly shown: Shown;
  /** The place behind which it wants to be told; undefined: all of it. */
  readonly after?: EventsCall["after"];
  readonly isStreamed: boolean;
  /** How long it takes to read a frame. */
  readonly paceMs: () => number;
  /** What its connection shows behind the last byte, and when. */
  readonly arrival: { readonly kind: Arrival; readonly afterMs: number } | undefined;
}

export class Exchange {
  readonly ended: Promise<ResponseEnd>;
  /** Frames that the client has. */
  frames = 0;
  onFrame: (frames: number) => void = () => undefined;
  readonly #options: ExchangeOptions;
  readonly #gone = new AbortController();
  readonly #end = Promise.withResolvers<ResponseEnd>();
  #answer: Answer | undefined;
  #telling: Telling | undefined;
  #isOver = false;
  #isTold = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.ended = this.#end.promise;
    this.#run().catch((cause: unknown) => options.world.fail(cause));
  }

  /** The client hangs up. */
  cut(): void {
    if (this.#isOver) return;
    this.#over(false, { kind: "broken" });
    this.#gone.abort();
  }

  /** The process is dead: nothing is reported to it any more. */
  killed(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#end.resolve({ kind: "broken" });
  }

  /** The server shuts down: whatever is waited for ends, and the client is told. */
  shutDown(): void {
    if (this.#isOver) return;
    this.#over(false, { kind: "error", code: "shutting_down" });
    this.#gone.abort();
  }

  async #run(): Promise<void> {
    const { gateway, ask, decision, process } = this.#options;
    let answer: Answer;
    try {
      answer = await ask(gateway, this.#gone.signal);
    } catch (cause) {
      if (!process.alive) return;
      const { code, type } = toGatewayError(cause);
      if (this.#isOver) {
        decision.left();
        return;
      }
      decision.refused(code ?? type);
      this.#over(false, { kind: "error", code: code ?? type });
      return;
    }
    if (!process.alive) return;
    this.#telling = decision.decided(answer);
    this.#answer = answer;
    if (this.#isOver) {
      // An answer that its client does not wait for any more has not been delivered.
      answer.delivered(false);
      this.#telling.over(false);
      return;
    }
    await this.#read(answer);
  }

  async #read(answer: Answer): Promise<void> {
    const { shown, after, isStreamed } = this.#options;
    shown.streamId = answer.streamId;
    shown.fromEvent = answer.head.fromEvent;
    const chunks = new ChatChunks({ ...answer.head, ...(after === undefined ? {} : { after }) });
    const deltas = answer.deltas[Symbol.asyncIterator]();
    const collector = new AnswerCollector();
    let isFirst = true;
    try {
      for (;;) {
        const result = await deltas.next();
        if (this.#isDead()) return;
        if (result.done === true) {
          // It had everything but the last word.
          this.#isTold = isFirst && after !== undefined;
          if (!this.#isTold) throw new HoldfastError("unavailable", "the deltas stop without an end");
          this.#over(true, { kind: "whole" });
          return;
        }
        isFirst = false;
        const { value } = result;
        this.#telling?.read(value);
        if (!isStreamed) {
          collector.add(value);
          if (value.kind !== "calls" && value.kind !== "ended") continue;
          this.#isTold = true;
          showWhole(shown, collector.completion(answer.head));
          this.#over(true, { kind: "whole" });
          return;
        }
        const frames = chunks.of(value);
        this.#show(frames);
        await this.#pause();
        if (this.#isDead()) return;
        if (!chunks.isOver) continue;
        this.#isTold = value.kind !== "diverged";
        const error = errorOf(frames);
        this.#over(this.#isTold, error === undefined ? { kind: "whole" } : { kind: "error", code: error });
        return;
      }
    } catch (cause) {
      if (this.#isDead()) return;
      const { code, type } = toGatewayError(cause);
      if (!this.#isTold) this.#telling?.failed(code ?? type);
      this.#over(this.#isTold, { kind: "error", code: code ?? type });
    } finally {
      deltas.return?.().catch(() => undefined);
    }
  }

  #isDead(): boolean {
    return this.#isOver || !this.#options.process.alive;
  }

  #show(frames: readonly Frame[]): void {
    const { shown } = this.#options;
    for (const frame of frames) {
      show(shown, frame);
      this.onFrame(++this.frames);
    }
  }

  #pause(): Promise<void> {
    const { process, paceMs } = this.#options;
    const delayMs = paceMs();
    return delayMs === 0 ? Promise.resolve() : new Promise((resolve) => process.env.after(delayMs, resolve));
  }

  #over(isWhole: boolean, end: ResponseEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#answer?.delivered(isWhole);
    this.#telling?.over(isWhole);
    const { arrival, process } = this.#options;
    if (isWhole && arrival !== undefined) {
      process.env.after(arrival.afterMs, () => {
        this.#answer?.arrived?.(arrival.kind);
        this.#telling?.arrived(arrival.kind);
      });
    }
    this.#end.resolve(end);
  }
}

/** Errors that a client tries again behind. */
export const PASSING: ReadonlySet<string> = new Set([
  "shutting_down",
  "open_streams_limit",
  "server_error",
  "answer_diverged",
]);

/** What a client does in the middle of an answer: at once, after a while, or behind some frames. */
export function soon(world: World, random: Random, exchange: Exchange, act: () => void): void {
  if (random.chance(0.4)) world.enqueue(random.int(30), act);
  else if (random.chance(0.5)) world.enqueue(random.int(3_000), act);
  else {
    const frames = 1 + random.int(8);
    exchange.onFrame = (count) => {
      if (count === frames) world.enqueue(0, act);
    };
  }
}

const CALL = z.object({
  id: z.string(),
  function: z.object({ name: z.string(), arguments: z.string() }),
});

const CHUNK = z.object({
  error: z.object({ code: z.string().nullish(), type: z.string() }).optional(),
  choices: z
    .array(
      z.object({
        delta: z.object({ content: z.string().optional(), tool_calls: z.array(CALL).optional() }),
        finish_reason: z.string().nullable(),
      }),
    )
    .default([]),
});

function chunkOf({ data }: Frame): z.infer<typeof CHUNK> {
  return CHUNK.parse(JSON.parse(data));
}

function errorOf(frames: readonly Frame[]): string | undefined {
  for (const frame of frames) {
    const { error } = chunkOf(frame);
    if (error !== undefined) return error.code ?? error.type;
  }
  return undefined;
}

/** As a client takes a frame in. */
function show(shown: Shown, frame: Frame): void {
  shown.place = parseFramePlace(frame.id);
  for (const { delta, finish_reason } of chunkOf(frame).choices) {
    shown.text += delta.content ?? "";
    for (const call of delta.tool_calls ?? [])
      shown.calls.push({ id: call.id, name: call.function.name, args: call.function.arguments });
    shown.finish = finish_reason ?? shown.finish;
  }
}

function showWhole(shown: Shown, { choices: [{ message, finish_reason }] }: ChatCompletion): void {
  shown.text = message.content ?? "";
  for (const call of message.tool_calls ?? [])
    shown.calls.push({ id: call.id, name: call.function.name, args: call.function.arguments });
  shown.finish = finish_reason;
}

/** A client that needs more gets no answer. */
const TRIES_MAX = 40;
/** Answers that a model thinks about for minutes fill all places for so long: until then a refusal for want of a place is no try. */
const FULL_MS_MAX = 900_000;

/** How often a client has asked for one answer. */
export class Tries {
  readonly #world: World;
  readonly #fullUntilMs: number;
  #count = 0;

  constructor(world: World) {
    this.#world = world;
    this.#fullUntilMs = world.nowMs + FULL_MS_MAX;
  }

  get areLeft(): boolean {
    return this.#count < TRIES_MAX;
  }

  count(end: ResponseEnd): void {
    const isFull = end.kind === "error" && end.code === "open_streams_limit";
    if (!isFull || this.#world.nowMs > this.#fullUntilMs) this.#count++;
  }
}
