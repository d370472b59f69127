/**
 * A model as unreliable as real ones: asked again it answers something else, it breaks off, it thinks, and it calls tools in any mixture.
 *
 * It decides what a model decides, by the seed, and nothing that the turn decides. A prompt that says "endless" is answered step after step
 * until the turn is stopped.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
} from "../../src/agent/index.ts";
import { textOf } from "../../src/protocol/chat-message.ts";
import type { Environment } from "../../src/transport/environment.ts";

/** What the model needs of the process it is called in, simulated or real. */
export interface ModelProcess {
  readonly env: Pick<Environment, "random" | "after">;
  readonly world: { readonly seed: number };
}

const STEPS_MAX = 4;
const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

export function wildModels(process: ModelProcess): Models {
  const wild: Model = {
    id: "simulated/wild",
    contextTokensMax: 1_000,
    call: (call) => answer(new Whims(process), call),
  };
  return {
    resolve: () => wild,
    list: () => [{ id: wild.id, provider: "simulated", isDefault: true, contextTokensMax: 1_000 }],
  };
}

/** What the model feels like, drawn by the seed. */
class Whims {
  readonly #env: ModelProcess["env"];
  /** Some models are slow: then a step lives through more than one crash. */
  readonly #pace: number;

  constructor({ env, world }: ModelProcess) {
    this.#env = env;
    this.#pace = world.seed % 8 === 0 ? 15 : 1;
  }

  chance(probability: number): boolean {
    return this.#env.random() < probability;
  }

  below(end: number): number {
    return Math.floor(this.#env.random() * end);
  }

  pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#env.after(delayMs, resolve);
    });
  }

  think(): Promise<void> {
    return this.pause(this.#pace * (this.chance(0.2) ? this.below(3_000) : this.below(50)));
  }

  /** A name that nothing else in the world has. */
  token(): string {
    return `t${this.below(1e9).toString(36)}${this.below(1e9).toString(36)}`;
  }
}

async function* answer(whims: Whims, { messages, tools, signal }: ModelCall): AsyncGenerator<ModelPart> {
  const isEndless = messages.some(
    (message) => message.role === "user" && textOf(message).includes("endless"),
  );
  const asked = messages.findLastIndex(({ role }) => role === "user");
  const steps = messages.length - asked;
  if (!isEndless && whims.chance(0.03)) throw broken(whims.chance(0.5));
  const calls = isEndless ? 1 : steps > STEPS_MAX ? 0 : whims.below(3);
  const parts: ModelPart[] = [
    ...(whims.chance(0.3) ? thought(whims) : []),
    ...Array.from({ length: whims.below(6) }, (): ModelPart => ({
      kind: "text",
      text: `${whims.below(1_000)} `,
    })),
    ...Array.from({ length: tools.length === 0 ? 0 : calls }, (_, at) =>
      toolCall(whims, `call_${at}`, isEndless),
    ),
  ];
  if (tools.length === 0) parts.push({ kind: "text", text: "That was all." });
  for (const part of parts) {
    await whims.think();
    signal.throwIfAborted();
    yield part;
    if (!isEndless && whims.chance(0.02)) throw broken(true);
  }
  if (isEndless) await whims.pause(4_000);
  signal.throwIfAborted();
  yield { kind: "finish", reason: calls > 0 ? "tool_calls" : "stop", usage: USAGE };
}

function broken(isPassing: boolean): ModelFailure {
  return new ModelFailure("unavailable", "the model broke off", { isPassing });
}

function thought(whims: Whims): readonly ModelPart[] {
  const text = `hm ${whims.below(1_000)} `;
  return [
    { kind: "thinking", text },
    { kind: "thinking", text },
    { kind: "thinking_end", metadata: { simulated: { signature: text } } },
  ];
}

function toolCall(whims: Whims, toolCallId: string, isEndless: boolean): ModelPart {
  const token = whims.token();
  const todos = { todos: [{ id: token, text: "more", status: "pending" }] };
  const choices: readonly [string, unknown][] = [
    ["shell", { command: `work ${token}` }],
    ["shell", { command: `work ${token}` }],
    ["read", { path: token }],
    ["write", { path: token, content: token }],
    ["edit", { path: token, edits: [{ old_text: "old", new_text: "new" }] }],
    ["subagent", { description: "a part", prompt: token }],
    ["ask_user", { questions: [{ text: `which ${token}?` }] }],
    ["todo_write", todos],
    ["nonsense", { token }],
  ];
  const [tool, args] = isEndless
    ? (["todo_write", todos] as const)
    : (choices[whims.below(choices.length)] ?? ["shell", {}]);
  return { kind: "tool_call", toolCallId, tool, args: JSON.stringify(args) };
}
