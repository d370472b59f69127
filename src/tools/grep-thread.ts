/**
 * The event loop's end of a search without ripgrep: starts the thread, waits, ends it when it takes too long.
 */
import { addAbortListener } from "node:events";
import { Worker } from "node:worker_threads";
import { extname, join } from "node:path";
import { fault } from "./faults.ts";
import type { FileSearch, Findings } from "./grep-collector.ts";
import type { Jail, JailOptions } from "./jail.ts";
import { SEARCH_MS_MAX, tookTooLong } from "./pace.ts";

/** What the thread is given; plain values. */
export interface ThreadOrder extends FileSearch {
  readonly root: { readonly fd: number; readonly path: string };
  readonly jail: JailOptions;
}

export type ThreadAnswer =
  | { readonly kind: "found"; readonly findings: Findings }
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

/** The source runs as it is, and so does the build: the thread's file has the ending that this one has. */
const THREAD_FILE = join(import.meta.dirname, `grep-worker${extname(import.meta.filename)}`);

export async function searchInThread(
  what: FileSearch,
  jail: Jail,
  signal: AbortSignal,
  timeoutMs = SEARCH_MS_MAX,
): Promise<Findings> {
  const { fd, path } = jail.root;
  const order: ThreadOrder = { ...what, root: { fd, path }, jail: jail.options };
  const worker = new Worker(THREAD_FILE, { name: "holdfast grep" });
  const { promise, resolve, reject } = Promise.withResolvers<ThreadAnswer>();
  worker.once("message", resolve).once("error", reject);
  worker.once("exit", () => reject(fault("EIO", "the search ended without a result")));
  const timer = setTimeout(() => reject(tookTooLong()), timeoutMs);
  using _stopping = addAbortListener(signal, () => reject(fault("ABORT_ERR", "stopped")));
  try {
    worker.postMessage(order, []);
    const answer = await promise;
    if (answer.kind === "failed") throw fault(answer.code, answer.message);
    return answer.findings;
  } finally {
    clearTimeout(timer);
    // Also closes the descriptors that the thread has open.
    await worker.terminate();
  }
}
