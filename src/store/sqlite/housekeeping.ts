/**
 * What a database needs besides its commits: the write-ahead log moved and cut, free pages given back.
 *
 * None of it may hold up a commit for long. The bulk of a log is moved by a second thread beside the
 * writer; only the small rest that came meanwhile is moved between two commits, so that the log can begin
 * anew. Pages are given back in small steps, mostly in idle moments: a busy database uses them again.
 *
 * A failure here is a failure of the disk, and ends the engine as a failed commit does (F5).
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Moved } from "./checkpointer.ts";
import type { Engine } from "./engine.ts";

/** Moved when it has grown to this: 8 MiB. Longer logs cost disk, shorter ones cost syncs. */
const MOVE_PAGES = 2048;
/** What the writer moves by itself: a millisecond or two. */
const REST_PAGES = 256;
/** However busy it is, the log does not grow beyond this: 256 MiB. */
const PAGES_MAX = 65_536;
/** Nothing asked for so long is an idle moment. */
const IDLE_MS = 200;
/** Pages given back in one step: about a millisecond. */
const VACUUM_STEP_PAGES = 256;
/** Between two steps requests are served. */
const STEP_PAUSE_MS = 5;
/** Fewer free pages than this are kept for the next commits. */
const FREE_PAGES_KEPT = 256;

export function housekeepingOf(engine: Engine, path: string) {
  let checkpointer: Worker | undefined;
  let isMoving = false;
  let isClosed = false;
  let lastCommitMs = 0;
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    timer = undefined;
    if (isClosed) return;
    const quietMs = performance.now() - lastCommitMs;
    const nextMs = quietMs < IDLE_MS ? IDLE_MS - quietMs : isMoreAfterStep() ? STEP_PAUSE_MS : undefined;
    if (nextMs !== undefined) timer = setTimeout(tick, nextMs).unref();
  }

  /** One step in an idle moment; true when there is another one to do. */
  function isMoreAfterStep(): boolean {
    let isMore = false;
    engine.keepHouse(({ log, freePages, giveBack }) => {
      if (freePages() > FREE_PAGES_KEPT) giveBack(VACUUM_STEP_PAGES);
      isMore = freePages() > FREE_PAGES_KEPT;
      const { pages, movedPages } = log.length();
      if (pages - movedPages > MOVE_PAGES) moveBeside();
      else if (!isMore && !isMoving && pages > 0) log.truncate();
    });
    return isMore || isMoving;
  }

  function moveBeside(): void {
    if (isMoving) return;
    isMoving = true;
    checkpointer ??= startCheckpointer();
    checkpointer.postMessage("move", []);
  }

  function startCheckpointer(): Worker {
    const file = import.meta.url.endsWith(".ts") ? "./checkpointer.ts" : "./checkpointer.js";
    const worker = new Worker(new URL(file, import.meta.url), {
      workerData: path,
      name: "holdfast log",
    });
    worker.unref();
    worker.on("error", (error) => engine.fail(error));
    worker.on("exit", () => (checkpointer = undefined));
    worker.on("message", ({ error }: Moved) => {
      isMoving = false;
      if (error !== undefined) engine.fail(new HoldfastError("unavailable", error));
    });
    return worker;
  }

  return {
    /** After every turn that wrote. */
    afterCommit(): void {
      if (isClosed) return;
      engine.keepHouse(({ log }) => {
        const { pages, movedPages } = log.length();
        const rest = pages - movedPages;
        if (pages > PAGES_MAX || (pages > MOVE_PAGES && rest <= REST_PAGES && rest > 0)) log.move();
        else if (rest > MOVE_PAGES) moveBeside();
      });
      lastCommitMs = performance.now();
      timer ??= setTimeout(tick, IDLE_MS).unref();
    },
    async close(): Promise<void> {
      isClosed = true;
      clearTimeout(timer);
      if (checkpointer === undefined) return;
      const ended = once(checkpointer, "exit");
      checkpointer.postMessage("close", []);
      await ended;
    },
  };
}
