/**
 * Sessions whose node died, and that no request has asked for since: a node that lives takes each over shortly before its time is over, and ends it as its own.
 *
 * Until then it costs nothing anywhere, and its results may arrive at any node. Without this its rows would end by themselves, and its stream, which nothing
 * would tell, with the retention time.
 *
 * Invariant: every session that waits ends with its time, whichever nodes are gone by then.
 */
import type { Environment } from "../transport/environment.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import { livesElsewhere, type Neighbours } from "./neighbours.ts";
import type { SessionRecord } from "./session-record.ts";
import type { Takeovers } from "./takeovers.ts";

interface OrphansParts {
  readonly neighbours: Neighbours;
  readonly takeovers: Takeovers;
  readonly environment: Pick<Environment, "now" | "after">;
  readonly tasks: BackgroundTasks;
  /** How long a session waits. */
  readonly ttlMs: number;
  /** Aborted when the gateway closes. */
  readonly closing: AbortSignal;
}

/** Of a session's time: its rows end with all of it. */
const TAKEN_AFTER = 0.9;

export class Orphans {
  readonly #parts: OrphansParts;
  readonly #clocks = new Map<string, () => void>();

  constructor(parts: OrphansParts) {
    this.#parts = parts;
    parts.closing.addEventListener("abort", () => {
      for (const stop of this.#clocks.values()) stop();
      this.#clocks.clear();
    });
  }

  /** Records as a look at the tables has found them. */
  async learn(records: readonly SessionRecord[]): Promise<void> {
    const { neighbours, closing } = this.#parts;
    for (const record of records) {
      const { streamId } = record.answer;
      if (record.state === "finished" || this.#clocks.has(streamId)) continue;
      if (await livesElsewhere(neighbours, record.owner)) continue;
      if (closing.aborted) return;
      this.#watch(record);
    }
  }

  #watch({ principal, answer, updatedMs }: SessionRecord): void {
    const { environment, takeovers, tasks, ttlMs } = this.#parts;
    const delayMs = Math.max(0, updatedMs + ttlMs * TAKEN_AFTER - environment.now());
    const stop = environment.after(delayMs, () => {
      this.#clocks.delete(answer.streamId);
      tasks.run(takeovers.takeOrphan(principal, answer));
    });
    this.#clocks.set(answer.streamId, stop);
  }
}
