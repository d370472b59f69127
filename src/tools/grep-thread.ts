/**
 * The event loop's end of a search without ripgrep: starts the thread, waits, ends it when it takes too long.
 */
import { Worker } from "node:worker_threads";
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
function threadFile(): URL {
  return new URL(import.meta.url.endsWith(".ts") ? "./grep-worker.ts" : "./grep-worker.js", import.meta.url);
}

export async function searchInThread(
  what: FileSearch,
  jail: Jail,
  signal: AbortSignal,
  timeoutMs = SEARCH_MS_MAX,
): Promise<Findings> {
  const { fd, path } = jail.root;
  const order: ThreadOrder = { ...what, root: { fd, path }, jail: jail.options };
  const worker = new Worker(threadFile(), { name: "holdfast grep" });
  let timer: NodeJS.Timeout | undefined;
  let stop: (() => void) | undefined;
  try {
    const answer = await new Promise<ThreadAnswer>((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
      worker.once("exit", () => reject(fault("EIO", "the search ended without a result")));
      timer = setTimeout(() => reject(tookTooLong()), timeoutMs);
      stop = () => reject(fault("ABORT_ERR", "stopped"));
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
      worker.postMessage(order, []);
    });
    if (answer.kind === "failed") throw fault(answer.code, answer.message);
    return answer.findings;
  } finally {
    clearTimeout(timer);
    if (stop !== undefined) signal.removeEventListener("abort", stop);
    // Also closes the descriptors that the thread has open.
    await worker.terminate();
  }
}
