/**
 * Answers that a test writes while they are read: what stands behind the gateway's HTTP in these tests.
 */
import type { AnswerDelta } from "../../../src/gateway/openai/index.ts";
import type {
  Answer,
  ChatCall,
  EventsCall,
  GatewayAnswers,
  KeyedCall,
  StopCall,
} from "../../../src/gateway/http/index.ts";

const NO_USAGE = {
  inputTokens: 7,
  outputTokens: 3,
  cacheReadTokens: 2,
  cacheWriteTokens: 0,
  reasoningTokens: 1,
} as const;
const SAID = { text: "", reasoning: "" } as const;

export function text(eventId: number, words: string): AnswerDelta {
  return { kind: "text", text: words, eventId, endsEvent: true };
}

export function ended(eventId: number): AnswerDelta {
  const end = {
    reason: "completed",
    finish: "stop",
    failure: undefined,
    usage: NO_USAGE,
    said: SAID,
  } as const;
  return { kind: "ended", ...end, eventId, endsEvent: true };
}

export function restarted(eventId: number): AnswerDelta {
  return { kind: "restarted", eventId, endsEvent: true };
}

export function failed(eventId: number): AnswerDelta {
  const end = {
    reason: "failed",
    finish: undefined,
    failure: undefined,
    usage: NO_USAGE,
    said: SAID,
  } as const;
  return { kind: "ended", ...end, eventId, endsEvent: true };
}

export function calls(eventId: number, names: readonly string[]): AnswerDelta {
  const made = names.map((tool, at) => {
    const ids = { execId: `exec-${at}`, id: at, providerToolCallId: `p${at}`, callId: `call${at}aaaa` };
    return { ...ids, tool, args: `{"at":${at}}` };
  });
  return { kind: "calls", calls: made, step: 0, usage: NO_USAGE, said: SAID, eventId, endsEvent: true };
}

export class ScriptedAnswer implements Answer {
  readonly source = "new";
  readonly streamId: string;
  readonly head = {
    id: "chatcmpl-test",
    createdS: 1_800_000_000,
    model: "acme/one",
    includeUsage: true,
    fromEvent: 0,
  };
  /** How it was delivered; one entry for each time it was told. */
  readonly deliveries: boolean[] = [];
  readonly #delivered = Promise.withResolvers<boolean>();
  readonly #script: (AnswerDelta | Error | "end")[];
  #more = Promise.withResolvers<void>();
  /** How many were asked for. */
  taken = 0;
  isReturned = false;

  constructor(streamId: string, script: readonly (AnswerDelta | Error | "end")[]) {
    this.streamId = streamId;
    this.#script = [...script];
  }

  add(...more: readonly (AnswerDelta | Error | "end")[]): void {
    this.#script.push(...more);
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }

  get delivery(): Promise<boolean> {
    return this.#delivered.promise;
  }

  delivered(isWhole: boolean): void {
    this.deliveries.push(isWhole);
    this.#delivered.resolve(isWhole);
  }

  get deltas(): AsyncIterable<AnswerDelta> {
    return { [Symbol.asyncIterator]: () => this.#read() };
  }

  async *#read(): AsyncGenerator<AnswerDelta> {
    try {
      for (;;) {
        const next = this.#script[this.taken];
        if (next === undefined) {
          await this.#more.promise;
          continue;
        }
        this.taken++;
        if (next === "end") return;
        if (next instanceof Error) throw next;
        yield next;
      }
    } finally {
      this.isReturned = true;
    }
  }
}

/** Gives the answers that the test has laid out, in order; further ones say "hello". */
export class ScriptedAnswers implements GatewayAnswers {
  readonly chats: ChatCall[] = [];
  readonly resumed: EventsCall[] = [];
  readonly stopped: (StopCall | KeyedCall)[] = [];
  /** Idempotency keys of requests that were accepted before. */
  readonly known = new Set<string>();
  readonly #next: (ScriptedAnswer | Error | Promise<ScriptedAnswer>)[] = [];
  stopping: () => Promise<void> = () => Promise.resolve();

  give(...answers: readonly (ScriptedAnswer | Error | Promise<ScriptedAnswer>)[]): void {
    this.#next.push(...answers);
  }

  models(): readonly { readonly id: string; readonly provider: string }[] {
    return ["acme/one", "acme/two", "other/big"].map((id) => ({ id, provider: id.split("/")[0] ?? "" }));
  }

  modelId(name: string): string | undefined {
    return this.models().find(({ id }) => id === name || id.endsWith(`/${name}`))?.id;
  }

  async chat(call: ChatCall): Promise<Answer> {
    this.chats.push(call);
    return this.#answer();
  }

  async isKnown({ idempotencyKey }: KeyedCall): Promise<boolean> {
    return this.known.has(idempotencyKey);
  }

  async events(call: EventsCall): Promise<Answer> {
    this.resumed.push(call);
    return this.#answer();
  }

  async stop(call: StopCall | KeyedCall): Promise<void> {
    this.stopped.push(call);
    await this.stopping();
  }

  async forgetConversation(principal: string, streamId: string): Promise<void> {
    this.stopped.push({ principal, streamId });
  }

  async #answer(): Promise<Answer> {
    const next = await (this.#next.shift() ?? new ScriptedAnswer("stream-0", [text(1, "hello"), ended(2)]));
    if (next instanceof Error) throw next;
    return next;
  }
}
