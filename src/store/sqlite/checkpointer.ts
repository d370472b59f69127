/**
 * A second connection in a second thread that moves the write-ahead log into the database.
 *
 * To move some megabytes and sync them takes tens of milliseconds. SQLite lets that happen beside a
 * writer, so commits need not wait for it.
 */
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../protocol/assert.ts";
import { openWriting } from "./connection.ts";
import { writeFailure } from "./sqlite-error.ts";
import { writeAheadLog } from "./write-ahead-log.ts";

/** Why it could not be moved; undefined when it was. */
export interface Moved {
  readonly error: string | undefined;
}

const port = parentPort;
assert(port !== null, "the checkpointer runs in a thread of its own");
assert(typeof workerData === "string", "the checkpointer is given a path");
const database = openWriting(workerData);
const log = writeAheadLog(database);

port.on("message", (order: "move" | "close") => {
  let error: string | undefined;
  try {
    if (order === "move") log.move();
    else database.close();
  } catch (cause) {
    // Worded here: SQLite's code does not survive the way to the other thread.
    error = writeFailure(cause);
  }
  const moved: Moved = { error };
  port.postMessage(moved);
  if (order === "close") port.close();
});
