/**
 * Answers of an application's own `/api/chat` route, made to last: every UI message stream of the AI SDK becomes a Holdfast stream.
 *
 * A route hands over a function that makes the answer. It is called once for a request, however often the request comes: what it says is on the disk before
 * a client sees it, continues without a reader, and is read again from any event. It ends when it is done, or when `stop` says so.
 *
 * Invariant: an answer in which a tool was called is never made a second time, because the tool's effect would happen again.
 */
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import type { UIMessageChunk } from "ai";
import { Client, type ClientStream } from "../client/index.ts";
import { DEFAULTS as RETENTION } from "../core/retention.ts";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { numberedName } from "../protocol/key-number.ts";
import { type HomeKeys, ringSealing } from "../sealing/index.ts";
import { nodeSealing } from "../sealing/node.ts";
import { type ApplicationStream, createServer } from "../server/index.ts";
import { openSqliteStore, type TableStore } from "../store/index.ts";
import { memoryTransport, systemEnvironment } from "../transport/index.ts";
import { chunkTexts, eventsOf, heard, NOTHING_SAID, type Said } from "./answer-log.ts";
import { makeDataDir } from "./data-dir.ts";
import { gatewayHomeKeys } from "./home-keys.ts";
import { thisMachine } from "./machine.ts";

export interface ChatsOptions {
  /** A directory of its own, for one process at a time. */
  readonly data: string;
  /** How long an answer can be read again after its last sign of life. Default: 2 h. */
  readonly retentionMs?: number | undefined;
  /** What people should know, such as where the key lies that seals the answers. Default: it is printed as a warning. */
  readonly onNotice?: ((message: string) => void) | undefined;
}

/** What `streamText` returns, or a UI message stream that was made of it. */
export type AnswerSource =
  | ReadableStream<UIMessageChunk>
  | { toUIMessageStream(): ReadableStream<UIMessageChunk> };

export interface AnswerOptions {
  readonly request: Request;
  readonly chatId: string;
  /** Whose chat it is, where several people have some; the route has made sure of it. */
  readonly user?: string | undefined;
  /** Makes the answer. The signal fires when it is stopped: give it to `streamText` as `abortSignal`. */
  readonly answer: (signal: AbortSignal) => AnswerSource | Promise<AnswerSource>;
}

type ChatOptions = Omit<AnswerOptions, "answer">;

/** The newest answer of a chat. */
interface Row {
  /** As the request names it. */
  readonly requestKey: string;
  readonly stream: string;
}

const TABLE = "chats";
const PRINCIPAL = "chats";
const DONE = "[DONE]";
const CUT =
  "The server was restarted in the middle of this answer. What it had said is kept; send the message again for a whole one.";
const CUT_WITH_TOOLS =
  "The server was restarted in the middle of this answer, after a tool was called. It is not answered again by itself, because the tool would run twice.";

export async function openChats(options: ChatsOptions): Promise<Chats> {
  const { retentionMs = RETENTION.retentionMs, onNotice = (notice) => process.emitWarning(notice) } = options;
  const machine = thisMachine();
  const dataDir = resolve(options.data);
  makeDataDir(dataDir, onNotice);
  const store = await openSqliteStore(dataDir, { now: machine.now });
  try {
    const keys = await gatewayHomeKeys({
      tables: store.tables,
      isShared: false,
      dataDir,
      machine,
      onNotice,
    });
    return new Chats(store, keys, retentionMs);
  } catch (cause) {
    await store.close();
    throw cause;
  }
}

export class Chats {
  readonly #store: Awaited<ReturnType<typeof openSqliteStore>>;
  readonly #tables: TableStore;
  readonly #server: ReturnType<typeof createServer>;
  readonly #client: Client;
  readonly #retentionMs: number;
  readonly #keyNumber: number;
  /** How the answers that this process makes are made, by stream. */
  readonly #making = new Map<string, AnswerOptions["answer"]>();

  constructor(store: Awaited<ReturnType<typeof openSqliteStore>>, keys: HomeKeys, retentionMs: number) {
    this.#store = store;
    this.#tables = store.tables;
    this.#retentionMs = retentionMs;
    this.#keyNumber = keys.keyNumber;
    const { homeKey } = keys;
    const sealing = ringSealing(nodeSealing(), keys);
    const application = (stream: ApplicationStream): Promise<void> => this.#make(stream);
    this.#server = createServer({
      store: store.streams,
      blobs: store.blobs,
      sealing,
      application,
      host: { retention: { ...RETENTION, retentionMs } },
    });
    const { connect } = memoryTransport(this.#server.accept, {
      principalOf: () => PRINCIPAL,
      countsItself: true,
    });
    this.#client = new Client({ connect, sealing, homeKey, journals: "none", forgetsEnded: true });
  }

  /** The answer to a `POST` of `useChat`, made once for each `idempotency-key`, and read from behind `last-event-id`. */
  async toHoldfastResponse({ answer, ...chat }: AnswerOptions): Promise<Response> {
    const requestKey = chat.request.headers.get("idempotency-key") ?? newName();
    const known = await this.#newest(chat);
    if (known?.requestKey === requestKey) return this.#again(known.stream, answer, chat.request);
    const stream = numberedName(newName(), this.#keyNumber);
    const value = new TextEncoder().encode(JSON.stringify({ requestKey, stream } satisfies Row));
    await this.#tables.put({ table: TABLE, key: keyOf(chat) }, value, { ttlMs: this.#retentionMs * 2 });
    this.#making.set(stream, answer);
    try {
      return respond(await this.#client.open({ idempotencyKey: stream, isFresh: true }), 0);
    } catch (cause) {
      this.#making.delete(stream);
      throw cause;
    }
  }

  /** The answer to the `GET` by which `useChat` asks for an answer that is under way; 204 when there is none. */
  async resume(chat: ChatOptions): Promise<Response> {
    const none = new Response(null, { status: 204 });
    const known = await this.#newest(chat);
    if (known === undefined) return none;
    const after = cursorOf(chat.request);
    if (this.#making.has(known.stream)) return respond(await this.#client.follow(known.stream, after), after);
    const said = await this.#look(known.stream);
    if (said === undefined || said.isOver) return none;
    return respond(await this.#client.follow(known.stream, after, { peek: true }), after, said.head);
  }

  /** Stops the newest answer of a chat, for good, at the provider too. */
  async stop(chat: ChatOptions): Promise<Response> {
    const known = await this.#newest(chat);
    if (known !== undefined && this.#making.has(known.stream)) {
      const stopped = await this.#client.abort(known.stream);
      await stopped.ended;
    }
    return new Response(null, { status: 204 });
  }

  /** Stops what is under way; what it has said stays. */
  async close(): Promise<void> {
    await this.#client.close();
    await this.#server.shutdown();
    await this.#store.close();
  }

  /** A request that came before: its answer is read, or made anew when its process has died over it. */
  async #again(name: string, answer: AnswerOptions["answer"], request: Request): Promise<Response> {
    const after = cursorOf(request);
    if (!this.#making.has(name)) {
      const said = await this.#look(name);
      if (said === undefined) return new Response("this answer is not kept any more", { status: 410 });
      // Of two requests that come at once, one makes it.
      if (!said.isOver && !this.#making.has(name)) {
        this.#making.set(name, answer);
        (await this.#client.resume(name)).leave();
      }
    }
    return respond(await this.#client.follow(name, after), after);
  }

  /** What the log of a stream has; undefined when it is gone. Nothing is made to run. */
  async #look(name: string): Promise<{ readonly isOver: boolean; readonly head: number } | undefined> {
    const stream = await this.#client.follow(name, 0, { peek: true });
    try {
      const head = await headOf(stream);
      if (head === undefined) return undefined;
      let last = 0;
      while (last < head) {
        const next = await stream.events.next();
        if (next.done === true) return undefined;
        last = next.value.eventId;
        if (next.value.end !== undefined) return { isOver: true, head };
      }
      return { isOver: false, head };
    } finally {
      stream.leave();
    }
  }

  /** Runs an answer: the application of every stream. */
  async #make(stream: ApplicationStream): Promise<void> {
    const answer = this.#making.get(stream.idempotencyKey);
    try {
      const texts = chunkTexts();
      let said = NOTHING_SAID;
      for await (const { body } of stream.past()) said = heard(said, texts(body) ?? "");
      if (answer === undefined) await refuse(stream, CUT);
      else if (said.hasTools || said.hasSteps) await refuse(stream, CUT_WITH_TOOLS);
      else await tell(stream, answer, said);
      await stream.end(new TextEncoder().encode(DONE));
    } finally {
      this.#making.delete(stream.idempotencyKey);
    }
  }

  async #newest(chat: ChatOptions): Promise<Row | undefined> {
    const row = await this.#tables.get({ table: TABLE, key: keyOf(chat) });
    const { requestKey, stream } = fieldsOf(row && parsedJson(new TextDecoder().decode(row.value)));
    return typeof requestKey === "string" && typeof stream === "string" ? { requestKey, stream } : undefined;
  }
}

/** Says what the answer says, chunk by chunk. One that was cut off in its first step begins that step anew. */
async function tell(stream: ApplicationStream, answer: AnswerOptions["answer"], said: Said): Promise<void> {
  const emit = async (chunk: UIMessageChunk): Promise<void> => {
    let last: Promise<unknown> = Promise.resolve();
    for (const event of eventsOf(chunk)) last = stream.emit(event);
    await last;
  };
  if (said.hasBegun) await emit({ type: "reset-step" });
  let isFirstStep = said.hasBegun;
  try {
    const source = await answer(stream.signal);
    const chunks = "toUIMessageStream" in source ? source.toUIMessageStream() : source;
    for await (const chunk of untilAborted(chunks, stream.signal)) {
      if (stream.signal.aborted) return;
      // What has begun is not begun twice.
      if (isFirstStep && (chunk.type === "start" || chunk.type === "start-step")) {
        isFirstStep = chunk.type === "start";
        continue;
      }
      await emit(chunk);
    }
  } catch (cause) {
    if (stream.signal.aborted) return;
    await emit({ type: "error", errorText: messageOf(cause) });
  }
}

/** A source that does not listen to the signal is not waited for. */
async function* untilAborted<Chunk>(
  chunks: ReadableStream<Chunk>,
  signal: AbortSignal,
): AsyncGenerator<Chunk, void, undefined> {
  const reader = chunks.getReader();
  const stop = (): void => void reader.cancel().catch(() => undefined);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

async function refuse(stream: ApplicationStream, errorText: string): Promise<void> {
  for (const event of eventsOf({ type: "error", errorText })) await stream.emit(event);
}

/** Where the log ends; undefined when the stream is not there any more. */
async function headOf(stream: ClientStream): Promise<number | undefined> {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const look = (): void => {
    if (stream.status.headAtWelcome !== undefined) resolve(stream.status.headAtWelcome);
  };
  const unwatch = stream.watch(look);
  look();
  void stream.ended.then(() => resolve(stream.status.headAtWelcome));
  return promise.finally(unwatch);
}

/** Server-sent events as the AI SDK reads them, each with its number. `until`: nothing comes behind this event, because no server makes the answer any more. */
function respond(stream: ClientStream, after: number, until?: number): Response {
  const texts = chunkTexts();
  const encoder = new TextEncoder();
  let last = after;
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    const say = (text: string, id?: number): void =>
      controller.enqueue(encoder.encode(`${id === undefined ? "" : `id: ${id}\n`}data: ${text}\n\n`));
    const sayChunk = (chunk: UIMessageChunk): void => say(JSON.stringify(chunk));
    const close = (): void => {
      say(DONE);
      controller.close();
      stream.leave();
    };
    for (;;) {
      if (until !== undefined && last >= until) {
        sayChunk({ type: "error", errorText: CUT });
        close();
        return;
      }
      const next = await stream.events.next();
      if (next.done === true) {
        // Not the end of the answer: its reader asks again.
        controller.error(new HoldfastError("unavailable", "the server lets go of this answer"));
        return;
      }
      const { eventId, end, body } = next.value;
      last = eventId;
      if (end !== undefined) {
        if (end === "aborted") sayChunk({ type: "abort" });
        close();
        return;
      }
      const text = texts(body);
      if (text === undefined) continue;
      say(text, last);
      return;
    }
  };
  const events = new ReadableStream<Uint8Array>({ pull, cancel: () => stream.leave() }, { highWaterMark: 0 });
  return new Response(events, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      "x-vercel-ai-ui-message-stream": "v1",
    },
  });
}

function cursorOf({ headers }: Request): number {
  const id = Number(headers.get("last-event-id") ?? 0);
  return Number.isSafeInteger(id) && id > 0 ? id : 0;
}

/** No two people's chats share a row, whatever they are called. */
function keyOf({ chatId, user = "" }: ChatOptions): string {
  return createHash("sha256")
    .update(JSON.stringify([user, chatId]))
    .digest("hex");
}

function newName(): string {
  return Buffer.from(systemEnvironment().randomBytes(16)).toString("hex");
}
