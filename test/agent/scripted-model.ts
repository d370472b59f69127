/**
 * A model that answers each call from a list, and remembers what it was asked.
 */
import type { FinishReason, Model, ModelCall, ModelPart, Models, Usage } from "../../src/agent/index.ts";
import { ModelFailure } from "../../src/agent/index.ts";

export type Said =
  | string
  | { readonly tool: string; readonly args: unknown; readonly id?: string }
  | { readonly think: string }
  | ModelFailure;

const USAGE: Usage = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};

export class ScriptedModel implements Model {
  readonly id = "scripted/model";
  readonly contextTokensMax = 1_000;
  readonly calls: ModelCall[] = [];
  readonly #script: (call: ModelCall, count: number) => readonly Said[];
  finish: FinishReason | undefined;

  /** The script is asked with the call, so it can answer by what it is told, as a model does. */
  constructor(script: (call: ModelCall, count: number) => readonly Said[]) {
    this.#script = script;
  }

  /** Answers by the number of model messages since the user's: the same after a restart. */
  static steps(...steps: readonly (readonly Said[])[]): ScriptedModel {
    return new ScriptedModel(({ messages }) => {
      const at = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
      return steps[Math.ceil(at / 2)] ?? ["nothing more"];
    });
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    this.calls.push(call);
    const said = this.#script(call, this.calls.length);
    let made = 0;
    for (const piece of said) {
      await new Promise((resolve) => setImmediate(resolve));
      if (call.signal.aborted) throw new Error("stopped");
      if (piece instanceof ModelFailure) throw piece;
      if (typeof piece === "string") {
        for (const word of piece.split(/(?<= )/u)) {
          yield { kind: "text", text: word };
          // The disk of the tests is done by then: each word is an event of its own.
          await new Promise((resolve) => setImmediate(resolve));
        }
      } else if ("think" in piece) {
        yield { kind: "thinking", text: piece.think };
        yield { kind: "thinking_end", metadata: { scripted: { signature: `signed ${piece.think}` } } };
      } else {
        const toolCallId = piece.id ?? `call_${++made}`;
        const args = typeof piece.args === "string" ? piece.args : JSON.stringify(piece.args);
        yield { kind: "tool_call_delta", toolCallId, tool: piece.tool, args };
        yield { kind: "tool_call", toolCallId, tool: piece.tool, args };
      }
    }
    const reason =
      this.finish ??
      (said.some((piece) => typeof piece === "object" && "tool" in piece) ? "tool_calls" : "stop");
    yield { kind: "finish", reason, usage: USAGE };
  }

  get models(): Models {
    return {
      resolve: (name) => {
        if (name === "" || name === this.id) return this;
        throw new ModelFailure("model_not_found", `there is no model ${name}; there is ${this.id}`);
      },
      list: () => [{ id: this.id, provider: "scripted", isDefault: true, contextTokensMax: 1_000 }],
    };
  }
}
