/**
 * Whether a final error is one that an honest client may meet: each says something of the stream, which the log confirms or denies.
 */
import type { HoldfastError } from "../../src/protocol/errors.ts";
import { fail } from "./log-checks.ts";
import type { TrueStream } from "./truth.ts";
import type { World } from "./world/index.ts";

/** `log` is what is really durable of the stream. */
export function checkFinalError(
  world: World,
  log: TrueStream | undefined,
  role: "writer" | "reader",
  { code, message }: HoldfastError,
): void {
  switch (code) {
    case "fenced":
      if ((log?.state.writers.length ?? 0) < 1) fail("D1", "a client was fenced and nobody took over");
      return;
    case "stream_gone":
      if (message.includes("too old")) return;
      if (log !== undefined && !log.isGone) fail("A7", "a stream is said to be gone and is there");
      return;
    case "not_found":
      // A client that asked before it was there may hear of it a little later.
      if (log !== undefined && !log.isGone && world.nowMs - log.beganMs > 120_000) {
        fail("D4", "a stream is said not to be there and is");
      }
      return;
    case "events_gone":
      if ((log?.state.eventFloor ?? 1) <= 1) fail("B5", "events are said to be gone and are there");
      return;
    case "stream_ended":
      // Clocks that were set ahead by hours: by the server's clock the stream was left alone for so long (D7).
      if (message.includes("LookbackWindow") && hasHoursAhead(world)) return;
      return dishonest(role, code, message);
    case "unavailable":
    case "unauthenticated":
    case "connection_lost":
    case "overloaded":
      return;
    default:
      dishonest(role, code, message);
  }
}

/** Of a server, or of everything. */
function hasHoursAhead({ counters }: World): boolean {
  return counters.of("clock.hours_ahead.server") + counters.of("clock.hours_ahead.all") > 0;
}

function dishonest(role: string, code: string, message: string): never {
  return fail(code === "seqno_conflict" ? "A5" : "F1", `an honest ${role} failed with ${code}: ${message}`);
}
