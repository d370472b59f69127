/**
 * Streams that a killed process had begun, whose model call is held beside the server and whose request no row knows.
 *
 * The model is called while chunk 0 and the gateway's rows are on their way to the disk. A process that is killed then leaves a call under way at the
 * line, and a retry that finds nothing. So the name of a stream says which request it is for (`streamName`): the line knows the name, and a
 * retry of that request gets the stream, with the call that is held for it (G6). No disk is waited for.
 *
 * Invariant: a stream is given to one request, which has the Idempotency-Key and the body that it was begun for. Its name is opened when the store has no such
 * stream, and attached to when it has.
 */
import type { Client, ClientStream, OpenOptions } from "../client/index.ts";
import type { AnswerSource } from "./http/answers.ts";
import type { Environment } from "../transport/environment.ts";
import { type RequestNames, sameAsker, sameRequest, streamName } from "./names.ts";
import type { StepAttempt } from "../turn/open-step.ts";

export interface HeldStream {
  readonly principal: string;
  readonly streamId: string;
  /** The store has its first chunk. */
  readonly isStored: boolean;
}

/** What the line holds; asked once, before the first stream is opened. */
export interface HeldStreams {
  /** Streams that wait for their first answer, or that the store does not know. */
  list(): Promise<readonly HeldStream[]>;
  /** What the calls of an attempt are named. */
  namesOf(streamId: string, attempt: StepAttempt): Iterable<string>;
  /** Ends the calls of a stream at their provider. */
  end(stream: HeldStream): Promise<void>;
}

/** The stream in which a request is answered from the beginning. */
export interface Opening {
  readonly streamId: string;
  readonly left: HeldStream | undefined;
  readonly source: Extract<AnswerSource, "new" | "attached">;
  open(client: Client, how: Required<Pick<OpenOptions, "first" | "conversation">>): Promise<ClientStream>;
}

interface LeftStreamsParts {
  readonly held?: HeldStreams | undefined;
  /** True for a stream of which the gateway has a session. */
  readonly isKnown: (streamId: string) => boolean;
  readonly environment: Pick<Environment, "randomBytes">;
  /** Of the home key that new streams begin under. */
  readonly keyNumber?: number | undefined;
  readonly onBug: (bug: unknown) => void;
}

export class LeftStreams {
  readonly #parts: LeftStreamsParts;
  readonly #left = new Set<HeldStream>();
  #learning: Promise<void> | undefined;

  constructor(parts: LeftStreamsParts) {
    this.#parts = parts;
  }

  /** At the start; a request that opens a stream waits for it. */
  learn(): void {
    const { held, onBug } = this.#parts;
    if (held === undefined) return;
    const keep = (streams: readonly HeldStream[]): void => streams.forEach((left) => this.#left.add(left));
    this.#learning = held
      .list()
      .then(keep, onBug)
      .finally(() => (this.#learning = undefined));
  }

  /** Resolves with a stream that was left for this request, or with a new one. */
  async opening(principal: string, request: RequestNames): Promise<Opening> {
    if (this.#learning !== undefined) await this.#learning;
    const { environment, isKnown, keyNumber = 0 } = this.#parts;
    const isMeant = (left: HeldStream): boolean =>
      left.principal === principal && sameRequest(left.streamId, request) && !isKnown(left.streamId);
    const left = this.#left.values().find(isMeant);
    if (left === undefined) {
      const streamId = streamName(request, environment, keyNumber);
      const open: Opening["open"] = (client, how) =>
        client.open({ ...how, idempotencyKey: streamId, isFresh: true });
      return { streamId, left, source: "new", open };
    }
    this.#left.delete(left);
    const { streamId, isStored } = left;
    const open: Opening["open"] = (client, how) =>
      isStored ? client.resume(streamId, how) : client.open({ ...how, idempotencyKey: streamId });
    return { streamId, left, source: "attached", open };
  }

  /** The stream was not opened: the next retry may have it. */
  giveBack({ left }: Opening): void {
    if (left !== undefined) this.#left.add(left);
  }

  /** The requests under this Idempotency-Key are stopped. */
  async stop(principal: string, asker: string): Promise<void> {
    if (this.#learning !== undefined) await this.#learning;
    const { held } = this.#parts;
    for (const left of this.#left)
      if (left.principal === principal && sameAsker(left.streamId, asker)) {
        this.#left.delete(left);
        await held?.end(left);
      }
  }
}
