/**
 * The thread of a search without ripgrep: walks, reads and matches, then says what it found and ends.
 *
 * A regular expression of JavaScript cannot be interrupted, and some run for ever; a thread can be ended. It shares
 * the process's descriptors, so it walks from the same held workspace (E6).
 */
import { parentPort } from "node:worker_threads";
import { codeOf, failureOf } from "./faults.ts";
import type { ThreadAnswer, ThreadOrder } from "./grep-thread.ts";
import { heldBy } from "./held.ts";
import { Jail } from "./jail.ts";
import { searchFiles } from "./own-search.ts";

function answer(order: ThreadOrder): ThreadAnswer {
  try {
    const jail = new Jail(heldBy(order.root.fd, order.root.path), () => order.jail);
    return { kind: "found", findings: searchFiles(order, jail) };
  } catch (cause) {
    const { value } = failureOf(cause, order.path);
    const message = "message" in value ? value.message : "the search failed";
    return { kind: "failed", code: codeOf(cause), message };
  }
}

parentPort?.once("message", (order: ThreadOrder) => parentPort?.postMessage(answer(order), []));
