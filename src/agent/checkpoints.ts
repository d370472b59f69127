/**
 * Publishes checkpoints: the blobs first, the state that names them when the client has them all.
 *
 * Within a turn nobody waits for that; the last one of a turn is waited for.
 *
 * Invariant: every blob of a published checkpoint was acknowledged before.
 */
import { equals, toBinary } from "@bufbuild/protobuf";
import { countOf, LIST_IDS_MAX, messageIds, turnIds } from "../protocol/id-pages.ts";
import { LIMITS } from "../protocol/limits.ts";
import { ConversationStateSchema } from "../protocol/messages.ts";
import type { Draft } from "./checkpoint.ts";
import { TurnFailure } from "./turn-failure.ts";
import type { TurnIo } from "./turn-io.ts";

/** Room for the fields around it. */
const STATE_BYTES_MAX = LIMITS.eventBytesMax - 1_024;

export class Checkpoints {
  readonly #io: TurnIo;
  /** Set and not yet published, oldest first. */
  #drafts: Draft[] = [];

  constructor(io: TurnIo) {
    this.#io = io;
  }

  /** Sends the blobs on their way. */
  async prepare(draft: Draft): Promise<void> {
    for (const { bytes, kind, id } of draft.blobs) await this.#io.setBlob(bytes, kind, id);
    this.#drafts.push(draft);
  }

  /** The newest one whose blobs are all with the client, if there is one. Nobody waits for it. */
  publishReady(): void {
    const at = this.#drafts.findLastIndex((draft) => this.#isKept(draft));
    const draft = this.#drafts[at];
    if (draft === undefined) return;
    this.#drafts = this.#drafts.slice(at + 1);
    // One that is too large to be told is told of at the end of the turn.
    this.#publish(draft).catch(() => undefined);
  }

  /** Waits for the client. Throws a TurnFailure when it cannot keep what it should. */
  async publishLast(draft: Draft): Promise<void> {
    const { log } = this.#io;
    await this.prepare(draft);
    await this.#io.until(
      () => log.isClosed || draft.blobs.every(({ id }) => log.setAnswer(id) !== undefined),
    );
    if (draft.blobs.every(({ id }) => log.setAnswer(id) !== undefined)) {
      for (const { id } of draft.blobs) this.#checkKept(id);
      await this.#publish(draft);
    }
  }

  async #publish({ state }: Draft): Promise<void> {
    const before = this.#io.log.checkpoint;
    if (before !== undefined && equals(ConversationStateSchema, before, state)) return;
    const isLong = [messageIds(state), turnIds(state)].some((ids) => countOf(ids) > LIST_IDS_MAX);
    if (isLong || toBinary(ConversationStateSchema, state).length > STATE_BYTES_MAX) {
      throw new TurnFailure(
        "context_too_long",
        "the conversation is too long to be kept: summarize it, or begin anew",
      );
    }
    await this.#io.emit({ case: "conversationCheckpointUpdate", value: state });
  }

  #isKept(draft: Draft): boolean {
    return draft.blobs.every(({ id }) => {
      const answer = this.#io.log.setAnswer(id)?.message;
      return answer?.case === "setBlobResult" && answer.value.error === undefined;
    });
  }

  #checkKept(id: string): void {
    const answer = this.#io.log.setAnswer(id)?.message;
    if (answer?.case === "setBlobResult" && answer.value.error === undefined) return;
    const why = answer?.case === "setBlobResult" ? answer.value.error : "it does not know how";
    throw new TurnFailure("internal", `the client could not keep a part of the conversation: ${why}`);
  }
}
