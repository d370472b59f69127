/**
 * The way from a simulated provider to the turn: the parts of a generation are written as the events of a chat completion, and the production reader reads them.
 *
 * The bytes are cut anywhere, also within a character. Comments come between events. A generation that breaks off ends its connection in good order, resets it, says an error or
 * nonsense, or only pings from then on. Behind the finish marker all of that is no break any more.
 */
import { ModelFailure, type ModelCall, type ModelPart } from "../../src/agent/index.ts";
import { SdkTarget } from "../../src/agent/models/sdk-model.ts";
import type { Random, SimProcess, World } from "./world/index.ts";

type Model = Awaited<ReturnType<ConstructorParameters<typeof SdkTarget>[0]["load"]>>;

const ENDS = ["fin", "reset", "error", "nonsense", "pings"] as const;
export const WIRE_KINDS: readonly string[] = [
  ...ENDS.map((end) => `wire.${end}`),
  ...ENDS.map((end) => `wire.behind_finish.${end}`),
  "wire.ping",
];

const PING_MS = 2_000;
/** Four times as long as any clock of a call. */
const PINGS_MAX = 60;
/** Short: a world in trouble lasts for two minutes. */
const PATIENCE = {
  firstContentMs: 20_000,
  writingMs: 8_000,
  pingedWritingMs: 12_000,
  thinkingMs: 20_000,
  quietThinkingMs: 15_000,
  noContentMs: 30_000,
  silenceMs: 30_000,
};

interface Line {
  readonly world: World;
  readonly process: SimProcess;
  readonly random: Random;
  readonly modelId: string;
  /** The generation, for the reader that leaves with this signal. Throws where it breaks off. */
  readonly read: (signal: AbortSignal) => AsyncGenerator<ModelPart, void>;
}

export function overWire(call: ModelCall, line: Line): AsyncGenerator<ModelPart> {
  const { process, modelId } = line;
  const target = new SdkTarget({
    id: modelId,
    dialect: "openai-compatible",
    keys: ["key"],
    cooldown: { failures: 1, ms: 0 },
    load: async (fetch) => ({ ...NO_SDK, doStream: ask(fetch) }),
    fetch: () => async (_, init) => new Response(new Body(line, init?.signal ?? never()).stream),
    patience: PATIENCE,
    time: process.env,
  });
  // The provider has counted the request, and has been given the beginning.
  const { requests: _, prefill: __, ...asked } = call;
  return target.ask(asked, 0);
}

/** Production's SDK only writes the request of this dialect. */
const NO_SDK = {
  specificationVersion: "v4",
  provider: "simulated",
  modelId: "wire",
  supportedUrls: {},
  doGenerate: async () => never(),
} as const;

function ask(fetch: Parameters<ConstructorParameters<typeof SdkTarget>[0]["load"]>[0]): Model["doStream"] {
  return async ({ abortSignal }) => {
    await fetch("http://provider/chat/completions", { method: "POST", signal: abortSignal ?? null });
    return never();
  };
}

function never(): never {
  throw new Error("the reader of events takes the answer");
}

/** What the connection carries. */
class Body {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #line: Line;
  readonly #signal: AbortSignal;
  readonly #parts: AsyncGenerator<ModelPart, void>;
  /** Written, and not yet on its way. */
  #rest = Buffer.alloc(0);
  #calls: string[] = [];
  #stopPings: (() => void) | undefined;

  constructor(line: Line, signal: AbortSignal) {
    this.#line = line;
    this.#signal = signal;
    this.#parts = line.read(signal);
    // Also of a reader that is busy: its connection is closed at once.
    signal.addEventListener("abort", () => void this.#parts.return().catch(() => undefined));
    this.stream = new ReadableStream({ pull: (controller) => this.#pull(controller) }, { highWaterMark: 0 });
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const { world, random } = this.#line;
    if (this.#stopPings !== undefined) return;
    if (random.chance(0.05)) {
      world.hit("wire.ping");
      this.#rest = Buffer.concat([this.#rest, Buffer.from(": ping\n\n")]);
    }
    try {
      const { value, done } = await this.#parts.next();
      if (done === true) return controller.close();
      this.#rest = Buffer.concat([this.#rest, Buffer.from(this.#eventsOf(value))]);
      const isFinish = value.kind === "finish";
      // A piece of it stays behind until the next event, or for ever.
      const sent = isFinish || random.chance(0.5) ? this.#rest.length : random.int(this.#rest.length + 1);
      this.#send(controller, sent);
      if (isFinish && random.chance(0.7)) {
        controller.enqueue(Buffer.from("data: [DONE]\n\n"));
        controller.close();
      } else if (isFinish) this.#end(controller, "behind_finish.");
      else if (sent === 0) await this.#pull(controller);
    } catch (cause) {
      if (this.#signal.aborted || !(cause instanceof ModelFailure)) throw cause;
      this.#send(controller, random.int(this.#rest.length + 1));
      this.#end(controller, "");
    }
  }

  #send(controller: ReadableStreamDefaultController<Uint8Array>, bytes: number): void {
    if (bytes > 0) controller.enqueue(new Uint8Array(this.#rest.subarray(0, bytes)));
    this.#rest = this.#rest.subarray(bytes);
  }

  #end(controller: ReadableStreamDefaultController<Uint8Array>, when: "" | "behind_finish."): void {
    const { world, random } = this.#line;
    const end = random.pick(ENDS);
    world.hit(`wire.${when}${end}`);
    if (end === "error") controller.enqueue(Buffer.from('\n\ndata: {"error":{"message":"overloaded"}}\n\n'));
    if (end === "nonsense") controller.enqueue(Buffer.from('\n\ndata: {"choices":[\n\n'));
    if (end === "reset") controller.error(new TypeError("terminated"));
    else if (end === "pings") this.#ping(controller);
    else controller.close();
  }

  /** For as long as it is read. */
  #ping(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { process, world } = this.#line;
    const leave = (): void => {
      this.#stopPings?.();
      controller.error(this.#signal.reason);
    };
    if (this.#signal.aborted) return leave();
    this.#signal.addEventListener("abort", leave, { once: true });
    let pings = 0;
    const ping = (): void => {
      world.hit("wire.ping");
      if (++pings > PINGS_MAX) world.fail(new Error("G5: a connection is kept that only pings"));
      controller.enqueue(Buffer.from(": ping\n\n"));
      this.#stopPings = process.env.after(PING_MS, ping);
    };
    ping();
  }

  #eventsOf(part: ModelPart): string {
    switch (part.kind) {
      case "text":
        return chunk({ delta: { content: part.text } });
      case "thinking":
        return chunk({ delta: { reasoning_content: part.text } });
      case "tool_call_delta": {
        const { toolCallId: id, tool: name, args } = part;
        const known = this.#calls.indexOf(id);
        if (known >= 0)
          return chunk({ delta: { tool_calls: [{ index: known, function: { arguments: args } }] } });
        const index = this.#calls.push(id) - 1;
        return chunk({ delta: { tool_calls: [{ index, id, function: { name, arguments: args } }] } });
      }
      case "finish": {
        const { inputTokens, outputTokens } = part.usage;
        const usage = { prompt_tokens: inputTokens, completion_tokens: outputTokens };
        return chunk({ delta: {}, finish_reason: part.reason }, { usage });
      }
      // A chat completion has no sign for the end of a text, a thought or a call.
      default:
        return "";
    }
  }
}

function chunk(choice: object, more: object = {}): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }], ...more })}\n\n`;
}
