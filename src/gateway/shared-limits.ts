/**
 * What API keys may have over all nodes that share the tables: requests in a minute and at once, answers in the background, sessions that wait for tools.
 *
 * Requests leave their places when they are over; those of a process that is gone are over. What became of an answer or of a session, its record says.
 * A session that waits beyond the limit ends the one that has waited longest, wherever that is.
 */
import type { Environment } from "../transport/environment.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import { type OpenUse, type RateUse, type SpentElsewhere, tooManyAtOnce } from "./http/allowances.ts";
import { type Names, newId } from "./names.ts";
import type { Neighbours } from "./neighbours.ts";
import { tooManyInBackground } from "./refusals.ts";
import type { SealedRows } from "./sealed-rows.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";
import { SharedPlaces, type TakenPlace } from "./shared-places.ts";
import { SharedRates } from "./shared-rates.ts";

interface SharedLimitsParts {
  readonly rows: SealedRows;
  readonly names: Names;
  readonly neighbours: Neighbours;
  readonly store: Pick<SessionStore, "byStream">;
  readonly tasks: BackgroundTasks;
  readonly environment: Pick<Environment, "now" | "randomBytes">;
}

/** The place of an answer in the background is taken before its record is written. */
const YOUNG_MS = 60_000;

export class SharedLimits implements SpentElsewhere {
  readonly #parts: SharedLimitsParts;
  readonly #rates: SharedRates;
  readonly #places: SharedPlaces;

  constructor(parts: SharedLimitsParts) {
    const { rows, names, neighbours, environment } = parts;
    this.#parts = parts;
    const sharing = { rows, names, self: neighbours.self, now: () => environment.now() };
    this.#rates = new SharedRates(sharing);
    this.#places = new SharedPlaces(sharing);
  }

  /** Takes one of what the API key may send in a minute. Rejects when there is none left. */
  async spend(apiKeyId: string, use: RateUse): Promise<true> {
    await this.#rates.spend(apiKeyId, use);
    return true;
  }

  /** A request comes in; resolves with what is to be called when it is over. Rejects when there are as many as there may be. */
  async enter(apiKeyId: string, { concurrency: max, reads }: OpenUse): Promise<() => void> {
    const { neighbours, environment, tasks } = this.#parts;
    const [places, name, id] = [this.#places, ["concurrency", apiKeyId], newId(environment)];
    const isOver = async (taken: TakenPlace): Promise<boolean> =>
      taken.reads.some((one) => reads.includes(one)) ||
      (taken.owner !== neighbours.self && !(await neighbours.isAlive(taken.owner)));
    const taken = await places.take(name, { id, reads, max, isOver });
    if (taken.length > 0) throw tooManyAtOnce(max);
    return () => tasks.run(places.leave(name, id));
  }

  /** An answer in the background begins. Rejects when its API key has as many as it may. */
  async admitBackground(principal: string, apiKeyId: string, streamId: string, max: number): Promise<void> {
    const isRunning = (record: SessionRecord | undefined, isYoung: boolean): boolean =>
      record === undefined ? isYoung : record.state === "generating" && record.isBackground === true;
    const name = background(principal, apiKeyId);
    const taken = await this.#takeFor(name, { principal, streamId, max, isLasting: isRunning });
    if (taken.length > 0) throw tooManyInBackground(max);
  }

  /** Of an answer in the background whose record is gone, only its place would be left, and young. No removal waits for that. */
  removed({ principal, apiKeyId, isBackground, answer }: SessionRecord): void {
    const [{ tasks }, name] = [this.#parts, background(principal, apiKeyId)];
    if (isBackground === true) tasks.run(this.#places.leave(name, answer.streamId));
  }

  /** A session begins to wait. Resolves with the stream of the one that has to make room for it, if one has to. */
  async parking({ principal, parkedMax, answer }: SessionRecord): Promise<string | undefined> {
    if (parkedMax === undefined) return undefined;
    const isParked = (session: SessionRecord | undefined): boolean => session?.state === "parked";
    const wish = { principal, streamId: answer.streamId, max: parkedMax, isLasting: isParked };
    const [oldest] = await this.#takeFor(["parked", principal], wish);
    return oldest?.id;
  }

  #takeFor(
    name: readonly string[],
    wish: {
      readonly principal: string;
      readonly streamId: string;
      readonly max: number;
      readonly isLasting: (record: SessionRecord | undefined, isYoung: boolean) => boolean;
    },
  ): Promise<readonly TakenPlace[]> {
    const { store, environment } = this.#parts;
    const { principal, streamId: id, max, isLasting } = wish;
    const isOver = async (taken: TakenPlace): Promise<boolean> => {
      const record = await store.byStream(principal, taken.id);
      return !isLasting(record, environment.now() - taken.atMs < YOUNG_MS);
    };
    return this.#places.take(name, { id, max, isOver });
  }
}

function background(principal: string, apiKeyId = ""): readonly string[] {
  return ["background", principal, apiKeyId];
}
