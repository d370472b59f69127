/**
 * The requests of one attempt of a step, sent through the line.
 *
 * Each has a name that every run of the stream can say. So a server that was restarted asks which of them are held, and reads the newest from
 * its first byte, through the same parser. Requests that belong to one answer (one that is resumed at its provider, say) are read again in
 * their order, from the first of them: that one's number is in the label.
 *
 * Invariant: a signal that fires because this host let the stream go leaves the call alone; any other cancels it (G4, G6).
 */
import { LetGo } from "../../../protocol/let-go.ts";
import { STEP_REQUESTS_MAX } from "../../../turn/attempts.ts";
import { type ModelCall, ModelFailure } from "../../model.ts";
import type { Fetch } from "../providers.ts";
import { LineAnswer, noAnswer } from "./line-answer.ts";
import type { LineClient, LinePlace } from "./line-client.ts";
import type { AnswerHead, CallHead } from "./line-wire.ts";

type Named = Required<Pick<ModelCall, "nameOf" | "hostEpoch" | "stream">>;

/** Of a call that can be named; undefined when it cannot, or there is no line. */
export async function heldRequests(
  line: LineClient | undefined,
  { nameOf, hostEpoch, stream, mode }: Pick<ModelCall, keyof Named | "mode">,
): Promise<HeldRequests | undefined> {
  if (line === undefined || nameOf === undefined || hostEpoch === undefined || stream === undefined)
    return undefined;
  if ((await line.place()) === undefined) return undefined;
  const held = mode === "fresh" ? [] : await line.find(allNames(nameOf), hostEpoch);
  return new HeldRequests(line, { nameOf, hostEpoch, stream }, held);
}

/** Of all requests that the attempt may send. */
export function allNames(nameOf: Named["nameOf"]): readonly string[] {
  return namesOf(nameOf, 0, STEP_REQUESTS_MAX);
}

/** Each name is derived from the stream's key: only those are made that are needed. */
function namesOf(nameOf: Named["nameOf"], from: number, end: number): readonly string[] {
  return Array.from({ length: Math.max(0, end - from) }, (_, at) => nameOf(from + at));
}

export class HeldRequests {
  readonly #line: LineClient;
  readonly #named: Named;
  /** By number: those that are held and not yet read again. */
  readonly #held = new Map<number, string>();
  #next = 0;
  #first = 0;

  constructor(line: LineClient, named: Named, held: readonly (string | undefined)[]) {
    this.#line = line;
    this.#named = named;
    for (const [at, label] of held.entries()) if (label !== undefined) this.#held.set(at, label);
    const newest = this.#held.get(Math.max(...this.#held.keys()));
    this.#next = newest === undefined ? 0 : Number.parseInt(newest, 10);
    this.#first = this.#next;
  }

  /** The target whose answer is held from its beginning. */
  get target(): string | undefined {
    const label = this.#held.get(this.#next);
    return label === undefined ? undefined : label.slice(label.indexOf(" ") + 1);
  }

  /** Whether the next request is one that was sent before. */
  get isHeld(): boolean {
    return this.#held.has(this.#next);
  }

  /** What comes next belongs to another answer. */
  beginAnswer(): void {
    this.#first = this.#next;
  }

  /** What was sent for this answer is of no use; what comes next gets other names. */
  forgetAnswer(): void {
    this.#next = this.#end;
    const names = namesOf(this.#named.nameOf, this.#first, this.#next);
    this.#held.clear();
    if (names.length > 0) void this.#line.say("cancel", names, this.#named.hostEpoch);
  }

  /** The answer is on disk: nothing of it need be held. */
  done(): void {
    void this.#line.say("done", namesOf(this.#named.nameOf, 0, this.#end), this.#named.hostEpoch);
  }

  /** Behind the last request that was sent, by this run or one before it. */
  get #end(): number {
    return Math.max(this.#next, ...[...this.#held.keys()].map((number) => number + 1));
  }

  /** `onSent` is called for a request that was not held; `plain` sends it when the line has gone. */
  fetch(target: string, plain: Fetch, onSent: () => void): Fetch {
    return async (input, init) => {
      const request = this.#next++;
      const isHeld = this.#held.delete(request);
      if (!isHeld) onSent();
      const place = await this.#line.place();
      if (place === undefined && isHeld) throw notHeld();
      if (place === undefined) return plain(input, init);
      const { nameOf, hostEpoch, stream } = this.#named;
      const label = `${this.#first} ${target}`;
      const call = { name: nameOf(request), hostEpoch, label, stream, isHeld };
      return throughLine(this.#line, place, call, input, init, plain);
    };
  }
}

export function notHeld(): ModelFailure {
  return new ModelFailure(
    "not_held",
    "the answer was cut off, and its call is no longer held; send it again",
  );
}

interface LineCall {
  readonly name: string;
  readonly hostEpoch: number;
  readonly label: string;
  readonly stream: CallHead["stream"];
  readonly isHeld: boolean;
}

async function throughLine(
  line: LineClient,
  place: LinePlace,
  { name, hostEpoch, label, stream, isHeld }: LineCall,
  input: Parameters<Fetch>[0],
  init: Parameters<Fetch>[1],
  plain: Fetch,
): Promise<Response> {
  const signal = init?.signal ?? undefined;
  const request = isHeld ? undefined : await requestOf(input, init, { label, stream });
  signal?.throwIfAborted();
  const asked = line.open(
    place,
    { ask: "attach", name, epoch: hostEpoch, call: request?.call },
    request?.body,
  );
  asked.once("close", line.reads(name, hostEpoch));
  let isConnected = false;
  asked.once("connect", () => (isConnected = true));
  const answer = new LineAnswer(asked, {
    lost: (cause) => (isHeld ? notHeld() : noAnswer("ECONNRESET", cause)),
    over: ({ status }) => {
      signal?.removeEventListener("abort", onAbort);
      // A refusal is no answer: it is not read again.
      if (status >= 300) void line.say("done", [name], hostEpoch);
    },
    leave: (reason) => {
      if (!(reason instanceof LetGo)) void line.say("cancel", [name], hostEpoch);
    },
  });
  const onAbort = (): void => answer.leave(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  let head: AnswerHead;
  try {
    head = await answer.head;
  } catch (error) {
    signal?.throwIfAborted();
    // The line has gone, and has heard nothing of it.
    if (!isConnected && !isHeld) return plain(input, init);
    throw error;
  }
  const isEmpty = head.status === 204 || head.status === 304;
  return isEmpty ? new Response(null, head) : answer.response(head);
}

async function requestOf(
  input: Parameters<Fetch>[0],
  init: Parameters<Fetch>[1],
  known: Pick<CallHead, "label" | "stream">,
): Promise<{ readonly call: CallHead; readonly body: Uint8Array }> {
  // The signal stays here: a request is sent whole, or not at all.
  const request = new Request(input, { ...init, signal: null, redirect: "manual" });
  const { method, url } = request;
  const headers = Object.fromEntries(request.headers);
  return { call: { method, url, headers, ...known }, body: await request.bytes() };
}
