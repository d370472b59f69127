/**
 * A chat answer in one piece, for clients that do not stream.
 *
 * Nothing was shown while it was collected, so a step that began anew and said something else is no trouble: the end of the
 * answer has all of its words.
 */
import type { AnswerCall, AnswerDelta, Finish, Said } from "../../turn/answer-delta.ts";
import type { Usage } from "../../turn/usage.ts";
import { endError } from "./answer.ts";
import { chatUsage, type ChatUsage } from "./chat-usage.ts";
import type { AnswerHead } from "./door.ts";
import { GatewayError } from "./gateway-error.ts";
import { type ReasoningDetail, reasoningDetail } from "./reasoning-details.ts";

export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [ChatChoice];
  readonly usage?: ChatUsage;
}

interface ChatChoice {
  readonly index: 0;
  readonly message: {
    readonly role: "assistant";
    readonly content: string | null;
    readonly refusal: null;
    readonly reasoning_content?: string;
    readonly reasoning_details?: readonly ReasoningDetail[];
    readonly tool_calls?: readonly {
      readonly id: string;
      readonly type: "function";
      readonly function: { readonly name: string; readonly arguments: string };
    }[];
  };
  readonly logprobs: null;
  readonly finish_reason: Finish;
}

interface Whole {
  readonly finish: Finish;
  readonly calls: readonly AnswerCall[];
  readonly usage: Usage;
}

export class AnswerCollector {
  #text = "";
  #reasoning = "";
  readonly #thoughts: ReasoningDetail[] = [];
  #hasDiverged = false;
  #whole: Whole | undefined;
  #error: GatewayError | undefined;
  /** The fallback that answered. */
  #servedBy: string | undefined;

  /** Nothing more is expected. */
  get isOver(): boolean {
    return this.#whole !== undefined;
  }

  add(delta: AnswerDelta): void {
    if (this.isOver) return;
    this.#servedBy = delta.model;
    switch (delta.kind) {
      case "text":
        this.#text += delta.text;
        return;
      case "reasoning":
        this.#reasoning += delta.text;
        return;
      case "thought":
        this.#thoughts.push(reasoningDetail(delta.token));
        return;
      case "restarted":
        return;
      case "diverged":
        this.#hasDiverged = true;
        return;
      case "calls":
        this.#end(delta.said, { finish: "tool_calls", calls: delta.calls, usage: delta.usage });
        return;
      case "ended":
        this.#error = endError(delta);
        this.#end(delta.said, { finish: delta.finish ?? "stop", calls: [], usage: delta.usage });
    }
  }

  #end(said: Said, whole: Whole): void {
    this.#whole = whole;
    if (!this.#hasDiverged) return;
    this.#text = said.text;
    this.#reasoning = said.reasoning;
  }

  /** Throws a GatewayError when the answer has no good end. */
  completion({ id, createdS, model }: Pick<AnswerHead, "id" | "createdS" | "model">): ChatCompletion {
    if (this.#error !== undefined) throw this.#error;
    if (this.#whole === undefined) {
      const message = "the answer broke off; send the request again";
      throw new GatewayError({ status: 503, type: "server_error", message });
    }
    const { finish, calls, usage } = this.#whole;
    const used = chatUsage(usage);
    const message = this.#message(calls);
    return {
      id,
      object: "chat.completion",
      created: createdS,
      model: this.#servedBy ?? model,
      choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
      ...(used === undefined ? {} : { usage: used }),
    };
  }

  #message(calls: readonly AnswerCall[]): ChatChoice["message"] {
    const made = calls.map(({ callId, tool, args }) => {
      return { id: callId, type: "function", function: { name: tool, arguments: args } } as const;
    });
    return {
      role: "assistant",
      content: this.#text === "" && made.length > 0 ? null : this.#text,
      refusal: null,
      ...(this.#reasoning === "" ? {} : { reasoning_content: this.#reasoning }),
      ...(this.#thoughts.length === 0 ? {} : { reasoning_details: this.#thoughts }),
      ...(made.length === 0 ? {} : { tool_calls: made }),
    };
  }
}
