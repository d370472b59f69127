/**
 * Drives one call: sends its requests, reads its answer, waits, and does what `call.ts` says next.
 *
 * The caller gets one response. Its body is read at the caller's pace, from as many connections as it takes.
 */
import {
  begin,
  errorCodeOf,
  type Input,
  type Next,
  SILENCE_MS,
  type State,
  step,
  stopAgainMs,
} from "./call.ts";
import { type Frame, FrameReader } from "./frames.ts";

export type Fetch = typeof globalThis.fetch;

export interface CallParts {
  readonly fetch: Fetch;
  readonly url: string;
  /** With the caller's headers; its signal is the caller's. */
  readonly init: RequestInit;
  readonly headers: Headers;
  /** The gateway sends something all the time, also before the first word. */
  readonly isStreamed: boolean;
  /** Undefined: the call was made before its server was known to be a gateway. */
  readonly key: string | undefined;
  readonly patienceMs: number;
  /** The call is over. */
  readonly onOver: (left: State["left"]) => void;
}

export class Call {
  readonly #parts: CallParts;
  readonly #ended = new AbortController();
  #state: State;
  #connection = new AbortController();
  #response: Response | undefined;
  #resumePath: string | undefined;
  #frames: FrameReader | undefined;
  #frame: Frame | undefined;
  /** All of an answer in one piece. */
  #whole = new ArrayBuffer();
  #refusal = "";
  #failure: unknown;
  /** The answer is none of a gateway, and is passed on untouched. */
  #isForeign = false;

  constructor(parts: CallParts) {
    this.#parts = parts;
    this.#state = begin(parts.patienceMs, performance.now());
  }

  /** The caller's response. Rejects as `fetch` does. `response`: what a call without a key was answered. */
  async run(response?: Response): Promise<Response> {
    const { signal } = this.#parts.init;
    const leave = (): void => this.#leave();
    signal?.addEventListener("abort", leave);
    this.#ended.signal.addEventListener("abort", () => signal?.removeEventListener("abort", leave));
    if (signal?.aborted === true) leave();
    const begun = response === undefined ? undefined : () => this.#responded(response, true);
    const next = begun === undefined ? await this.#advance({ kind: "post" }) : await this.#tried(begun);
    switch (next.kind) {
      case "hand_over":
        return this.#given(this.#streamed());
      case "end":
      case "refuse":
        if (this.#isForeign && this.#response !== undefined) return this.#response;
        return this.#given(next.kind === "end" ? this.#whole : this.#refusal);
      case "nothing":
        throw signal?.reason;
      default:
        throw this.#failure;
    }
  }

  #given(body: string | ArrayBuffer | ReadableStream<Uint8Array>): Response {
    const { status = 200, statusText = "", headers: given, url } = this.#response ?? {};
    const headers = new Headers(given);
    // What the caller gets is decoded already.
    headers.delete("content-encoding");
    headers.delete("content-length");
    const response = new Response(body, { status, statusText, headers });
    return Object.defineProperty(response, "url", { value: url });
  }

  #streamed(): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    return new ReadableStream<Uint8Array>(
      {
        pull: async (caller) => {
          const next = await this.#advance({ kind: "read_frame" });
          const frame = this.#frame;
          if (next.kind === "fail") caller.error(this.#failure);
          else if (next.kind === "nothing") caller.error(this.#parts.init.signal?.reason);
          else if (next.kind === "refuse")
            caller.enqueue(encoder.encode(`${named(this.#refusal)}data: ${this.#refusal.trim()}\n\n`));
          else if (frame !== undefined) caller.enqueue(encoder.encode(frame.text));
          if (next.kind === "end" || next.kind === "refuse") caller.close();
        },
        cancel: () => this.#leave(),
      },
      // Nothing is read ahead: what the caller has not asked for is not passed on.
      { highWaterMark: 0 },
    );
  }

  /** The caller leaves. */
  #leave(): void {
    const { kind } = this.#feed({ kind: "left" });
    if (kind === "stop") void this.#stop();
  }

  #feed(input: Input): Next {
    const isOver = this.#state.at === "over";
    const [state, next] = step(this.#state, input);
    this.#state = state;
    if (state.at === "over" && !isOver) {
      this.#parts.onOver(state.left);
      this.#ended.abort();
      if (next.kind === "end") this.#frames?.drain();
      else this.#connection.abort();
    }
    return next;
  }

  /** Does one thing after the other until there is something for the caller. */
  async #advance(first: Next): Promise<Next> {
    let next = this.#state.at === "over" ? NOTHING : first;
    for (;;) {
      switch (next.kind) {
        case "post":
        case "get":
          next = await this.#tried(next.kind === "post" ? () => this.#post() : () => this.#get());
          break;
        case "read_body":
          next = await this.#tried(() => this.#readBody());
          break;
        case "read_frame":
          next = await this.#tried(() => this.#readFrame());
          break;
        case "wait":
          await this.#sleep(next.delayMs);
          next = this.#feed({ kind: "waited" });
          break;
        default:
          return next;
      }
    }
  }

  async #tried(work: () => Promise<Input>): Promise<Next> {
    try {
      return this.#feed(await work());
    } catch (cause) {
      this.#failure = cause;
      return this.#feed({ kind: "broken", ...this.#moment() });
    }
  }

  #moment(): { readonly jitter: number; readonly nowMs: number } {
    return { jitter: Math.random(), nowMs: performance.now() };
  }

  async #post(): Promise<Input> {
    const { url, init, headers, isStreamed, key, patienceMs } = this.#parts;
    const more = {
      "idempotency-key": key ?? "",
      "x-holdfast-patience": String(Math.ceil(patienceMs / 1_000)),
    };
    const sent = this.#send(url, init, withHeaders(headers, more));
    return this.#responded(await (isStreamed ? this.#unlessSilent(sent) : sent), true);
  }

  async #get(): Promise<Input> {
    const { url, init, headers } = this.#parts;
    const { lastId } = this.#state;
    const more = lastId === undefined ? {} : { "last-event-id": lastId };
    const asked = { ...init, method: "GET", body: null };
    const sent = this.#send(urlOf(url, this.#resumePath ?? ""), asked, withHeaders(bare(headers), more));
    return this.#responded(await this.#unlessSilent(sent), false);
  }

  #send(url: string, init: RequestInit, headers: Headers): Promise<Response> {
    this.#connection = new AbortController();
    const { signal } = this.#connection;
    return this.#parts.fetch(url, { ...init, headers, signal });
  }

  async #responded(response: Response, isPost: boolean): Promise<Input> {
    const { ok, status, headers, body } = response;
    const isAnswer = headers.has("x-holdfast-stream");
    if (ok && !isAnswer && !isPost) throw new TypeError("the answer was continued by another server");
    if (isPost) this.#response = response;
    if (!ok) {
      const text = await response.text();
      this.#refusal = text;
      this.#failure = new TypeError(`the gateway answered ${status}`);
      const retryAfterMs = retryAfterOf(headers);
      return {
        kind: "refused",
        refusal: { status, code: errorCodeOf(text), retryAfterMs },
        ...this.#moment(),
      };
    }
    this.#resumePath = headers.get("x-holdfast-resume") ?? this.#resumePath;
    this.#isForeign = !isAnswer;
    if (!isAnswer) return { kind: "read_whole" };
    const isStream = headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (!isStream || body === null) return { kind: "unstreamed" };
    this.#frames = new FrameReader(body);
    return { kind: "streamed" };
  }

  async #readBody(): Promise<Input> {
    this.#whole = (await this.#response?.arrayBuffer()) ?? this.#whole;
    return { kind: "read_whole" };
  }

  async #readFrame(): Promise<Input> {
    const frames = this.#frames;
    const frame = frames === undefined ? undefined : await this.#unlessSilent(frames.next());
    this.#frame = frame;
    if (frame === undefined) throw new TypeError("the connection ended before the answer did");
    return { kind: "frame", id: frame.id, data: frame.data, ...this.#moment() };
  }

  /** A dead connection looks like a silent one. */
  async #unlessSilent<Value>(work: Promise<Value>): Promise<Value> {
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(new TypeError("the connection is dead"));
      this.#connection.abort();
    }, SILENCE_MS);
    try {
      return await Promise.race([work, silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends early when the call is over. */
  #sleep(delayMs: number): Promise<void> {
    const { signal } = this.#ended;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      const timer = setTimeout(resolve, delayMs);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Says that the answer is not wanted any more, also to a server that is being started again. */
  async #stop(): Promise<void> {
    const { fetch, url, init, headers, key } = this.#parts;
    const target = key === undefined ? urlOf(url, this.#resumePath ?? "") : url;
    const more = key === undefined ? {} : { "idempotency-key": key };
    const asked = { ...init, method: "DELETE", body: null, signal: null, keepalive: true };
    for (let tries = 0; ; tries++) {
      const status = await fetch(target, { ...asked, headers: withHeaders(bare(headers), more) }).then(
        async (response) => {
          await response.body?.cancel();
          return response.status;
        },
        () => undefined,
      );
      const delayMs = stopAgainMs(tries, status, Math.random());
      if (delayMs === undefined) return;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
}

/** Anthropic's clients know an error in a stream by the name of its event. */
function named(refusal: string): string {
  return refusal.startsWith('{"type":"error"') ? "event: error\n" : "";
}

const NOTHING: Next = { kind: "nothing" };

/** The gateway names paths from /v1 on; a proxy may have put it somewhere else. */
function urlOf(url: string, path: string): string {
  const at = url.lastIndexOf("/v1/");
  return at === -1 ? new URL(path, url).href : url.slice(0, at) + path;
}

/** The headers of a request without a body. */
function bare(given: Headers): Headers {
  const headers = new Headers(given);
  for (const name of ["content-type", "content-length", "idempotency-key"]) headers.delete(name);
  return headers;
}

function withHeaders(given: Headers, more: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(given);
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  return headers;
}

function retryAfterOf(headers: Headers): number {
  const ms = Number(headers.get("retry-after-ms") ?? Number(headers.get("retry-after")) * 1_000);
  return Number.isFinite(ms) ? ms : 0;
}
