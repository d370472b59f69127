/**
 * A model whose calls outlive its caller, as if another process held them: asked again for the same call by its name it reads it from the
 * beginning. It never says the same twice, and makes up ids of tool calls at each reading, as some SDKs do.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
} from "../../src/agent/index.ts";

const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

/** Each `#` in it is another number in each generation. */
export type Held = string | { readonly think: string } | { readonly tool: string; readonly args: unknown };

export class HoldingModel implements Model {
  readonly id = "holding/model";
  readonly contextTokensMax = 1_000;
  holdsCalls = true;
  /** The generations, by name. */
  readonly held = new Map<string, readonly ModelPart[]>();
  generations = 0;
  attached = 0;
  #read = 0;
  readonly #steps: readonly (readonly Held[])[];
  /** What becomes of a call when it is read again. */
  change: (parts: readonly ModelPart[]) => readonly ModelPart[] | undefined = (parts) => parts;

  constructor(...steps: readonly (readonly Held[])[]) {
    this.#steps = steps;
  }

  get models(): Models {
    return {
      resolve: () => this,
      list: () => [{ id: this.id, provider: "holding", isDefault: true, contextTokensMax: 1_000 }],
    };
  }

  done({ nameOf }: Pick<ModelCall, "nameOf">): void {
    this.held.delete(nameOf?.(1) ?? "");
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    const reading = ++this.#read;
    for (const part of this.#partsOf(call)) {
      await new Promise((resolve) => setImmediate(resolve));
      if (call.signal.aborted) throw new Error("the caller has gone");
      const isCall = part.kind === "tool_call" || part.kind === "tool_call_delta";
      yield isCall ? { ...part, toolCallId: `${part.toolCallId}-${reading}` } : part;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #partsOf({ mode, nameOf, messages, requests }: ModelCall): readonly ModelPart[] {
    const name = nameOf?.(1) ?? "";
    if (mode === "attach") {
      const parts = this.change(this.held.get(name) ?? []) ?? [];
      if (parts.length === 0) throw new ModelFailure("not_held", "the call is not held");
      this.attached++;
      return parts;
    }
    // The step may not even be in the log, and its call held.
    const known = this.held.get(name);
    if (known !== undefined) return known;
    void requests?.take();
    const at = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
    const said = this.#steps[Math.ceil(at / 2)] ?? ["nothing more"];
    const parts = generated(said, ++this.generations);
    this.held.set(name, parts);
    return parts;
  }
}

function generated(said: readonly Held[], generation: number): readonly ModelPart[] {
  let calls = 0;
  const parts = said.flatMap((piece): readonly ModelPart[] => {
    if (typeof piece === "string")
      return piece
        .replaceAll("#", String(generation))
        .split(/(?<= )/u)
        .map((text) => ({ kind: "text", text }));
    if ("think" in piece)
      return [
        { kind: "thinking", text: piece.think.replaceAll("#", String(generation)) },
        { kind: "thinking_end", metadata: { holding: { signature: piece.think } } },
      ];
    const { tool } = piece;
    const [toolCallId, args] = [`call_${++calls}`, JSON.stringify(piece.args)];
    // Also within a character.
    const pieces = args.match(/[^]{1,4}/g) ?? [];
    return [
      ...pieces.map((one) => ({ kind: "tool_call_delta", toolCallId, tool, args: one }) as const),
      { kind: "tool_call", toolCallId, tool, args },
    ];
  });
  return [...parts, { kind: "finish", reason: calls > 0 ? "tool_calls" : "stop", usage: USAGE }];
}
