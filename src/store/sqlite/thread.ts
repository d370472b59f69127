/**
 * The event loop's end of the database's thread: requests out, promises answered.
 *
 * Requests of one turn of the event loop leave in one message, at its end: a message costs more than what is in it,
 * and writes that travel together share a commit.
 *
 * A thread that dies takes every pending request with it, as a failed disk would: they are refused, and
 * so is every later one (F5).
 */
import { Worker } from "node:worker_threads";
import { HoldfastError, isErrorCode } from "../../protocol/errors.ts";
import type {
  Answer,
  Ask,
  CallKind,
  Ended,
  Opening,
  Reply,
  Request,
  ThreadStart,
  WireFailure,
} from "./calls.ts";

interface Pending {
  // Each takes the answer of its own kind; see `Reply`.
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

interface Post {
  readonly request: Request;
  /** The memory that leaves with it. */
  readonly transfer: readonly ArrayBuffer[];
}

/** The source runs as it is, and so does the build: the thread's file has the ending that this one has. */
function workerFile(): URL {
  return new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);
}

export async function startThread(start: ThreadStart): Promise<Thread> {
  const worker = new Worker(workerFile(), { workerData: start, name: "holdfast database" });
  const opening = await new Promise<Opening>((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", () =>
      reject(
        new HoldfastError("unavailable", "the database's thread ended before it had opened the database"),
      ),
    );
  });
  if (opening.kind === "open") return new Thread(worker);
  await worker.terminate();
  throw errorOf(opening.failure);
}

export class Thread {
  /** Resolves when a write or a sync has failed, or the thread has ended: then every request is refused (F5). */
  readonly failed: Promise<HoldfastError>;
  readonly #worker: Worker;
  readonly #ended = Promise.withResolvers<HoldfastError>();
  readonly #pending = new Map<number, Pending>();
  /** Of this turn. */
  readonly #waiting: Post[] = [];
  #lastId = 0;
  #failure: HoldfastError | undefined;
  #closing: Promise<void> | undefined;

  constructor(worker: Worker) {
    this.#worker = worker;
    this.failed = this.#ended.promise;
    worker.on("message", (said: readonly Reply[] | Ended) => {
      if ("kind" in said) this.#ended.resolve(errorOf(said.failure));
      else for (const reply of said) this.#settle(reply);
    });
    worker.on("error", (error: Error) => this.#fail(error));
    worker.on("exit", () => this.#fail(undefined));
    // Only a call that has no answer yet keeps the process alive.
    worker.unref();
  }

  call<K extends CallKind>(kind: K, ask: Ask<K>, transfer: readonly ArrayBuffer[] = []): Promise<Answer<K>> {
    if (this.#closing !== undefined) return Promise.reject(closed());
    return this.#call(kind, ask, transfer);
  }

  /** What was asked before is still answered. */
  close(): Promise<void> {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  async #finish(): Promise<void> {
    try {
      if (this.#failure === undefined) await this.#call("close", undefined, []);
    } finally {
      // Ends the database's connections and gives its lock back, whatever became of closing them in order.
      this.#failure ??= closed();
      await this.#worker.terminate();
    }
  }

  #call<K extends CallKind>(kind: K, ask: Ask<K>, transfer: readonly ArrayBuffer[]): Promise<Answer<K>> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#lastId += 1;
      const request: Request<K> = { id: this.#lastId, kind, ask };
      if (this.#waiting.length === 0) setImmediate(() => this.#post());
      this.#waiting.push({ request, transfer });
      if (this.#pending.size === 0) this.#worker.ref();
      this.#pending.set(request.id, { resolve, reject });
    });
  }

  #post(posts: readonly Post[] = this.#waiting.splice(0)): void {
    try {
      const transfer = posts.flatMap((post) => post.transfer);
      this.#worker.postMessage(
        posts.map(({ request }) => request),
        transfer,
      );
    } catch (cause) {
      // Nothing of it has left: what cannot be sent must not hold up the rest, and is not waited for.
      if (posts.length > 1) for (const post of posts) this.#post([post]);
      else for (const { request } of posts) this.#take(request.id)?.reject(unsent(cause));
    }
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#worker.unref();
    return pending;
  }

  #settle(reply: Reply): void {
    const pending = this.#take(reply.id);
    if (reply.kind === "answer") pending?.resolve(reply.value);
    else pending?.reject(errorOf(reply.failure));
  }

  #fail(cause: Error | undefined): void {
    this.#failure ??= new HoldfastError("unavailable", "the database's thread ended; open the store anew", {
      cause,
    });
    for (const { reject } of this.#pending.values()) reject(this.#failure);
    this.#pending.clear();
    if (this.#closing === undefined) this.#ended.resolve(this.#failure);
  }
}

function closed(): HoldfastError {
  return new HoldfastError("unavailable", "the database is closed");
}

function unsent(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}

function errorOf({ code, message, cause }: WireFailure): HoldfastError {
  return new HoldfastError(code !== undefined && isErrorCode(code) ? code : "internal", message, { cause });
}
