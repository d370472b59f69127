/**
 * The AI SDK's `useChat` over an application's own `/api/chat` route, whose answers `openChats` makes last.
 *
 * A request has a name, so that it can be sent again without being answered again; its answer is numbered, so that it is read on from where a
 * connection broke. Nothing of the connection's troubles reaches `useChat`.
 *
 * Invariant: `useChat` gets each chunk of an answer once, in order. A restarted server takes text back with a chunk of its own (`reset-step`).
 */
import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import * as z from "zod/mini";
import { thisPage } from "../client/browser/this-browser.ts";
import { onWakeUp } from "../client/browser/wake-ups.ts";
import { FrameReader } from "../fetch/frames.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { fieldsOf } from "../protocol/fields.ts";

export interface HoldfastRouteTransportOptions {
  /** Default: `/api/chat`. Under it, `GET /{chat id}/stream` reads an answer under way, and `DELETE` stops it. */
  readonly api?: string | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>) | undefined;
  /** Default: the browser's. */
  readonly fetch?: typeof fetch | undefined;
  /** What becomes of the answer when `useChat` lets go of it, for `stop()` or because its component goes away. Default: `stop`. */
  readonly onAbort?: "stop" | "leave" | undefined;
}

const DONE = "[DONE]";
/** The first wait, and the longest: full jitter between nothing and these. */
const WAIT_MS = 250;
const WAIT_MS_MAX = 8_000;
/** After so many breaks at the same place the transport gives up. */
const BREAKS_MAX = 10;

interface Asked {
  readonly chatId: string;
  /** A request that can be repeated as it is. */
  readonly ask: (cursor: number) => Promise<Response>;
  readonly signal: AbortSignal | undefined;
}

export class HoldfastRouteTransport implements ChatTransport<UIMessage> {
  readonly resumeStreamIsReplay = true;
  readonly #options: HoldfastRouteTransportOptions;
  readonly #api: string;
  /** The newest request of each chat. */
  readonly #requests = new Map<string, object>();

  constructor(options: HoldfastRouteTransportOptions = {}) {
    this.#options = options;
    this.#api = (options.api ?? "/api/chat").replace(/\/$/, "");
  }

  async sendMessages(
    options: Parameters<ChatTransport<UIMessage>["sendMessages"]>[0],
  ): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, messages, trigger, messageId, abortSignal: signal } = options;
    const body = JSON.stringify({ ...options.body, id: chatId, messages, trigger, messageId });
    const name = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
    const ask = (cursor: number): Promise<Response> =>
      this.#fetch(this.#api, "POST", { ...name, ...cursorIn(cursor) }, options.headers, { body, signal });
    this.#begin(chatId, signal);
    return read({ chatId, ask, signal }, await patiently(() => ask(0), signal));
  }

  async reconnectToStream(
    options: Parameters<ChatTransport<UIMessage>["reconnectToStream"]>[0],
  ): Promise<ReadableStream<UIMessageChunk> | null> {
    const { chatId, abortSignal: signal } = options;
    const ask = (cursor: number): Promise<Response> =>
      this.#fetch(this.#streamOf(chatId), "GET", cursorIn(cursor), options.headers, { signal });
    this.#begin(chatId, signal);
    const first = await patiently(() => ask(0), signal);
    return first.status === 204 ? null : read({ chatId, ask, signal }, first);
  }

  /** Stops the answer under way, for good. Resolves when the server has heard it. */
  async stop(chatId: string): Promise<void> {
    const keepalive = true;
    await patiently(
      () => this.#fetch(this.#streamOf(chatId), "DELETE", {}, undefined, { keepalive }),
      undefined,
    );
  }

  #begin(chatId: string, signal: AbortSignal | undefined): void {
    const request = {};
    this.#requests.set(chatId, request);
    signal?.addEventListener("abort", () => {
      // `useChat` also lets go of a request when it makes the next one at once, as React's strict mode has it do.
      queueMicrotask(() => {
        const isStop = this.#requests.get(chatId) === request && this.#options.onAbort !== "leave";
        if (isStop) this.stop(chatId).catch(() => undefined);
      });
    });
  }

  #streamOf(chatId: string): string {
    return `${this.#api}/${encodeURIComponent(chatId)}/stream`;
  }

  #fetch(
    url: string,
    method: string,
    own: Readonly<Record<string, string>>,
    given: ConstructorParameters<typeof Headers>[0],
    rest: Omit<RequestInit, "signal"> & { readonly signal?: AbortSignal | undefined },
  ): Promise<Response> {
    const { fetch: send = globalThis.fetch, headers = {} } = this.#options;
    const all = new Headers(given);
    for (const [name, value] of Object.entries(typeof headers === "function" ? headers() : headers))
      all.set(name, value);
    for (const [name, value] of Object.entries(own)) all.set(name, value);
    return send(url, { method, headers: all, ...rest, signal: rest.signal ?? null });
  }
}

function cursorIn(cursor: number): Readonly<Record<string, string>> {
  return cursor === 0 ? {} : { "last-event-id": String(cursor) };
}

function read({ ask, signal }: Asked, first: Response): ReadableStream<UIMessageChunk> {
  let cursor = 0;
  let frames = framesOf(first);
  /** In a row, without anything new between them. */
  let breaks = 0;
  const next = async (): Promise<UIMessageChunk | undefined> => {
    for (;;) {
      try {
        const frame = await frames.next();
        if (frame?.data === DONE) return undefined;
        const id = Number(frame?.id ?? 0);
        if (frame === undefined) throw new TypeError("the connection ended before the answer did");
        if (frame.data === "" || (id !== 0 && id <= cursor)) continue;
        cursor = Math.max(cursor, id);
        breaks = 0;
        return chunkIn(frame.data);
      } catch (cause) {
        if (signal?.aborted === true || breaks === BREAKS_MAX) throw cause;
        // The first time at once: most breaks are over when they are noticed.
        if (breaks++ > 0) await pause(waitMs(breaks), signal);
        const again = await patiently(() => ask(cursor), signal);
        // It has ended meanwhile and is not kept: there is nothing more to read.
        if (again.status === 204) return undefined;
        frames = framesOf(again);
      }
    }
  };
  return new ReadableStream(
    {
      pull: async (controller) => {
        const chunk = await next();
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
    },
    { highWaterMark: 0 },
  );
}

/** `useChat` looks at what it takes of a chunk. */
function chunkIn(text: string): UIMessageChunk {
  return z.parse(CHUNK, JSON.parse(text));
}

const CHUNK = z.custom<UIMessageChunk>((value) => typeof fieldsOf(value)["type"] === "string");

function framesOf({ body }: Response): FrameReader {
  if (body === null) throw new HoldfastError("unavailable", "the response of the chat's route is empty");
  return new FrameReader(body);
}

/** Asks until there is an answer: a network that is away and a server that restarts are waited for. Other refusals are errors. */
async function patiently(ask: () => Promise<Response>, signal: AbortSignal | undefined): Promise<Response> {
  for (let tries = 0; ; tries++) {
    signal?.throwIfAborted();
    try {
      const response = await ask();
      if (response.ok) return response;
      if (response.status < 500 && response.status !== 429)
        throw new HoldfastError("invalid_argument", await response.text());
    } catch (cause) {
      if (cause instanceof HoldfastError || signal?.aborted === true) throw cause;
    }
    await pause(waitMs(tries), signal);
  }
}

function waitMs(tries: number): number {
  return Math.random() * Math.min(WAIT_MS * 2 ** tries, WAIT_MS_MAX);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const over = (): void => resolve();
  signal?.addEventListener("abort", over, { once: true });
  const page = thisPage();
  const unwatch = page === undefined ? over : onWakeUp(page, over);
  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", over);
    unwatch();
  });
}
