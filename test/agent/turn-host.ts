/**
 * Hosts one turn over two logs in memory, as the server does over its store, and can take the stream away from it
 * after any event: the next run begins with both logs and nothing else.
 *
 * As on the server an event has its place when it is accepted, and is durable later: an abort does not take back
 * what was accepted before it, and losing the stream takes away all that is not durable.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import { createHash } from "node:crypto";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
} from "../../src/protocol/messages.ts";
import { type ErrorCode, HoldfastError } from "../../src/protocol/errors.ts";
import { LetGo } from "../../src/protocol/let-go.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type {
  Application,
  ApplicationBlobs,
  ApplicationStream,
  ClientInput,
} from "../../src/server/index.ts";

export type ClientSays = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;

export class TurnHost {
  readonly events: Uint8Array[] = [];
  readonly inputs: ClientInput[] = [];
  readonly blobs = new Map<string, Uint8Array>();
  /** Of a conversation that the server keeps; undefined when it keeps none. */
  kept: Map<string, Uint8Array> | undefined;
  /** What the other side does about each event, once, when it is durable. */
  onEvent: (message: AgentServerMessage, eventId: number) => void = () => undefined;
  /** The stream is taken away when this event is durable. */
  loseAt: number | undefined;
  end: "completed" | "failed" | "aborted" | undefined;
  /** The last event that was accepted: durable, or on its way. */
  accepted = 0;
  runs = 0;
  #hostEpoch = 0;
  #run: { readonly lost: AbortController; wake: () => void } | undefined;

  say(message: ClientSays): void {
    const body = toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
    this.hear({ kind: "chunk", seqno: this.inputs.filter(({ kind }) => kind !== "takeover").length, body });
  }

  hear(input: ClientInput): void {
    this.inputs.push(input);
    this.#run?.wake();
  }

  get said(): readonly AgentClientMessage[] {
    return this.inputs.flatMap((input) =>
      input.kind === "chunk" ? [fromBinary(AgentClientMessageSchema, input.body)] : [],
    );
  }

  get messages(): readonly AgentServerMessage[] {
    return this.events.map((body) => fromBinary(AgentServerMessageSchema, body));
  }

  abort(): void {
    this.end ??= "aborted";
    this.#run?.lost.abort(new HoldfastError("stream_ended", "aborted"));
    this.#run?.wake();
  }

  /** Takes the stream away now, and with it all that is not durable. */
  lose(): void {
    this.#run?.lost.abort(new LetGo("lost"));
    this.#run?.wake();
  }

  /** Runs until the end, however often the stream is taken away. */
  async finish(application: Application, loseAt?: number): Promise<void> {
    this.loseAt = loseAt;
    for (;;) {
      const isOver = await this.run(application);
      if (isOver) return;
    }
  }

  /** One run: true when the turn has ended, false when the stream was lost. */
  async run(application: Application): Promise<boolean> {
    this.runs++;
    const lost = new AbortController();
    let wake = (): void => undefined;
    this.#run = { lost, wake: () => wake() };
    const { events, inputs } = this;
    const [pastInputs, pastEvents] = [inputs.length, events.length];
    this.accepted = pastEvents;
    let hasEnded = false;
    const isAborted = (): boolean => this.end === "aborted";
    if (isAborted()) lost.abort();

    const append = async (kept: Uint8Array, end?: "completed" | "failed"): Promise<number> => {
      // Durable some time later, never at once.
      await new Promise((resolve) => setImmediate(resolve));
      if (lost.signal.aborted && !isAborted()) throw new HoldfastError("unavailable", "gone");
      events.push(kept);
      const eventId = events.length;
      if (end !== undefined) {
        hasEnded = true;
        this.end ??= end;
      }
      this.onEvent(fromBinary(AgentServerMessageSchema, kept), eventId);
      if (eventId === this.loseAt) {
        this.loseAt = undefined;
        lost.abort(new HoldfastError("unavailable", "lost"));
        wake();
      }
      return eventId;
    };
    let queue: Promise<unknown> = Promise.resolve();
    let waitingBytes = 0;
    // With the bounds of the server's own host.
    const refusal = (body: Uint8Array, end?: "completed" | "failed"): ErrorCode | undefined => {
      if (lost.signal.aborted && !isAborted()) return "unavailable";
      if (isAborted() && end === undefined) return "stream_ended";
      if (body.length > LIMITS.eventBytesMax) return "too_large";
      return end === undefined && waitingBytes > LIMITS.sendQueueBytesMax ? "overloaded" : undefined;
    };
    const inOrder = (body: Uint8Array, end?: "completed" | "failed"): Promise<number> => {
      const code = refusal(body, end);
      if (code !== undefined) {
        const refused = Promise.reject(new HoldfastError(code, "not logged"));
        refused.catch(() => undefined);
        return refused;
      }
      this.accepted++;
      const kept = body.slice();
      waitingBytes += kept.length;
      const done = queue.then(() => append(kept, end)).finally(() => (waitingBytes -= kept.length));
      queue = done.catch(() => undefined);
      done.catch(() => undefined);
      return done;
    };
    const stream: ApplicationStream = {
      principal: "user",
      idempotencyKey: "turn",
      pastInputs,
      inputs: {
        async *[Symbol.asyncIterator]() {
          for (let at = 0; ; at++) {
            while (at >= inputs.length) {
              if (lost.signal.aborted || hasEnded) return;
              await new Promise<void>((resolve) => (wake = resolve));
            }
            const input = inputs[at];
            if (input !== undefined) yield input;
          }
        },
      },
      async *past() {
        for (let at = 0; at < pastEvents; at++)
          yield { eventId: at + 1, body: events[at] ?? new Uint8Array() };
      },
      conversation: this.kept && blobsIn(this.kept),
      emit: async (body, kept = []) => {
        const eventId = await inOrder(body);
        for (const { id, bytes } of kept) this.kept?.set(id, bytes.slice());
        return eventId;
      },
      end: (body, reason = "completed") => inOrder(body, reason),
      blobs: blobsIn(this.blobs),
      waits: () => undefined,
      lasting: {
        hostEpoch: ++this.#hostEpoch,
        isNew: this.#hostEpoch === 1,
        secretName: (text) => createHash("sha256").update(text).digest("hex"),
      },
      signal: lost.signal,
    };
    try {
      await application(stream);
    } catch (error) {
      if (!lost.signal.aborted) throw error;
    }
    await queue;
    wake();
    this.#run = undefined;
    return hasEnded;
  }
}

function blobsIn(kept: Map<string, Uint8Array>): ApplicationBlobs {
  return {
    put: async (bytes) => {
      const id = createHash("sha256").update(bytes).digest("hex");
      kept.set(id, bytes.slice());
      return id;
    },
    get: async (id) => kept.get(id),
  };
}
