/**
 * Counts what passes between this process and the thread of its database: messages to it, and commits that it answers.
 *
 * The thread answers all writes of a transaction in one message, so a message that answers a write is a commit.
 */
import type { Transferable, Worker } from "node:worker_threads";
import { isRecord, type Measured } from "../harness/numbers.ts";

/** Answered from what is committed, or by the thread itself. */
const READS = new Set([
  "scan",
  "logBytes",
  "read",
  "readBody",
  "getRow",
  "listRows",
  "findBlob",
  "readPart",
  "listBlobs",
  "listSpaces",
  "checkPages",
  "beginWriting",
  "close",
]);

/** For all threads that this process starts from here on. */
export function countTraffic(): () => Measured {
  const writes = new Set<unknown>();
  let posts = 0;
  let commits = 0;
  const answered = (message: unknown): void => {
    const replies: readonly unknown[] = Array.isArray(message) ? message : [];
    // Each of them is forgotten, so not with `some`.
    const answersWrite = replies.filter((reply) => isRecord(reply) && writes.delete(reply["id"])).length > 0;
    if (answersWrite) commits++;
  };
  process.on("worker", (worker: Worker) => {
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message: unknown, transfer: readonly Transferable[] = []): void => {
      posts++;
      const asks: readonly unknown[] = Array.isArray(message) ? message : [message];
      for (const ask of asks) {
        if (isRecord(ask) && !READS.has(String(ask["kind"]))) writes.add(ask["id"]);
      }
      post(message, transfer);
    };
    worker.on("message", answered);
  });
  return () => ({ posts, commits });
}
