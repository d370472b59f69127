/**
 * A model that answers by what it is told, can be stopped in the middle of a sentence, and counts its calls.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
} from "../../src/agent/index.ts";

export interface PacedCall {
  readonly tool: string;
  /** A text goes out as it stands. */
  readonly args: object | string;
}

/** Words, a tool call, or something to wait for. */
export type Piece = string | PacedCall | (() => Promise<void>);

export type PacedScript = (call: ModelCall, count: number) => readonly Piece[];

const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};

export class PacedModel implements Model {
  readonly id: string;
  readonly contextTokensMax = 100_000;
  readonly calls: ModelCall[] = [];
  script: PacedScript;

  constructor(script: PacedScript, id = "paced/model") {
    this.script = script;
    this.id = id;
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    this.calls.push(call);
    const pieces = this.script(call, this.calls.length);
    const stopped = Promise.withResolvers<never>();
    stopped.promise.catch(() => undefined);
    call.signal.addEventListener("abort", () => stopped.reject(new Error("stopped")));
    let made = 0;
    for (const piece of pieces) {
      await new Promise((resolve) => setImmediate(resolve));
      if (call.signal.aborted) throw new Error("stopped");
      if (typeof piece === "function") {
        await Promise.race([piece(), stopped.promise]);
      } else if (typeof piece === "string") {
        for (const text of piece.split(/(?<= )/u)) yield { kind: "text", text };
      } else {
        const toolCallId = `call_${++made}`;
        const args = typeof piece.args === "string" ? piece.args : JSON.stringify(piece.args);
        yield { kind: "tool_call_delta", toolCallId, tool: piece.tool, args };
        yield { kind: "tool_call", toolCallId, tool: piece.tool, args };
      }
    }
    const hasCalls = pieces.some((piece) => typeof piece === "object");
    yield { kind: "finish", reason: hasCalls ? "tool_calls" : "stop", usage: USAGE };
  }
}

export function modelsOf(...models: readonly [PacedModel, ...PacedModel[]]): Models {
  return {
    resolve: (name) => {
      const found = name === "" ? models[0] : models.find(({ id }) => id === name);
      if (found === undefined) throw new ModelFailure("model_not_found", `there is no model ${name}`);
      return found;
    },
    list: () =>
      models.map(({ id, contextTokensMax }, at) => ({
        id,
        provider: "paced",
        isDefault: at === 0,
        contextTokensMax,
      })),
  };
}

/** What the model is told last: the words of a user, or of tools. */
export function lastTold({ messages }: ModelCall): string {
  const last = messages.at(-1);
  if (last === undefined || last.role === "assistant") return "";
  return last.content.map((part) => ("text" in part ? part.text : "")).join("|");
}
