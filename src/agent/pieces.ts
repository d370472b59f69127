/**
 * The pieces of a model's output on their way into the log: those that come while a commit is under way are joined.
 *
 * A piece that finds the disk free goes at once. Until it is durable no reader can get another one, so what comes
 * meanwhile waits here and goes as one event. So a slow model is heard word by word; a fast one, or a busy server, writes
 * as many events as the disk makes commits, not as many as there are tokens.
 *
 * Invariant: text and order stay, and nothing waits here while the disk is free.
 */
import type { Update } from "../turn/messages.ts";
import { PIECE_CHARS_MAX } from "./step-output.ts";
import type { TurnIo } from "./turn-io.ts";

export class Pieces {
  readonly #io: Pick<TurnIo, "update" | "untilDurable" | "head">;
  #held: Update | undefined;
  /** The last event of these that is not durable yet. */
  #writing: number | undefined;

  constructor(io: Pick<TurnIo, "update" | "untilDurable" | "head">) {
    this.#io = io;
  }

  /** Resolves when there is room for more. */
  async say(update: Update): Promise<void> {
    const joined = this.#held === undefined ? undefined : joinedOf(this.#held, update);
    if (joined !== undefined) {
      this.#held = joined;
      return;
    }
    await this.flush();
    if (this.#writing !== undefined && joinedOf(update, update) !== undefined) this.#held = update;
    else await this.#write(update);
  }

  /** Called before any other event is emitted. */
  async flush(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) await this.#write(held);
  }

  #write(update: Update): Promise<void> {
    const hasRoom = this.#io.update(update);
    const eventId = this.#io.head;
    this.#writing = eventId;
    const written = (): Promise<void> | undefined => {
      if (this.#writing !== eventId) return undefined;
      this.#writing = undefined;
      return this.flush();
    };
    // The caller that says the next event learns that the log is closed to us.
    this.#io
      .untilDurable(eventId)
      .then(written)
      .catch(() => undefined);
    return hasRoom;
  }
}

/** Undefined when they stay two. */
function joinedOf(first: Update, second: Update): Update | undefined {
  if (first.case === "textDelta" || first.case === "thinkingDelta") {
    if (second.case !== first.case) return undefined;
    const text = `${first.value.text ?? ""}${second.value.text ?? ""}`;
    return text.length > PIECE_CHARS_MAX ? undefined : { case: first.case, value: { text } };
  }
  if (first.case !== "partialToolCall" || second.case !== "partialToolCall") return undefined;
  const { toolCallId, argsJsonDelta = "" } = first.value;
  if (toolCallId !== second.value.toolCallId) return undefined;
  const args = `${argsJsonDelta}${second.value.argsJsonDelta ?? ""}`;
  const value = { ...first.value, argsJsonDelta: args };
  return args.length > PIECE_CHARS_MAX ? undefined : { case: "partialToolCall", value };
}
