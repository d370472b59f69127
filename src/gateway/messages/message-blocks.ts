/**
 * The content of a message, and the events that tell of it: deltas in, events out. Pure.
 *
 * Thoughts, text and calls are blocks, one behind the other; a block is complete when another one begins. The blocks are built by the same
 * calls that make the events, so a client that adds up the events has what a client is given in one piece.
 *
 * Invariant: each block is started, filled and stopped before the next one is started.
 */
import type { AnswerCall, AnswerDelta, Said } from "../openai/index.ts";

export type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown };

export type EventBody = Readonly<Record<string, unknown>> & { readonly type: string };

interface OpenBlock {
  readonly kind: "text" | "thinking";
  text: string;
}

export class MessageBlocks {
  #blocks: ContentBlock[] = [];
  #open: OpenBlock | undefined;

  /** Those that are complete. */
  get blocks(): readonly ContentBlock[] {
    return this.#blocks;
  }

  add(delta: AnswerDelta): readonly EventBody[] {
    switch (delta.kind) {
      case "text":
        return this.#say("text", delta.text);
      case "reasoning":
        return this.#say("thinking", delta.text);
      case "thought":
        return this.#sign(delta);
      case "calls":
        return [...this.#close(), ...delta.calls.flatMap((call) => this.#call(call))];
      case "ended":
        return this.#close();
      // What follows is another thought, and is signed by itself.
      case "restarted":
        return this.#open?.kind === "thinking" ? this.#close() : [];
      case "diverged":
        return [];
    }
  }

  /** The thought is whole. One that cannot be shown is a block of its own. */
  #sign({ token, thought }: Extract<AnswerDelta, { kind: "thought" }>): readonly EventBody[] {
    const isShown = this.#open?.kind === "thinking";
    if (!isShown && thought.metadataJson.includes('"redactedData"')) {
      const block = { type: "redacted_thinking", data: token } as const;
      return [...this.#close(), ...this.#start(block), this.#stop(block)];
    }
    const begun = isShown ? [] : this.#say("thinking", "");
    return [...begun, this.#delta({ type: "signature_delta", signature: token }), ...this.#close(token)];
  }

  /** For a reader that was shown nothing: what the answer has said in the end. */
  replace({ text, reasoning }: Said): void {
    this.#blocks = [];
    this.#open = undefined;
    if (reasoning !== "") this.#say("thinking", reasoning);
    if (text !== "") this.#say("text", text);
  }

  get #index(): number {
    return this.#blocks.length;
  }

  #say(kind: OpenBlock["kind"], text: string): readonly EventBody[] {
    const open = this.#open;
    if (open?.kind === kind) {
      open.text += text;
      return [this.#delta(deltaOf(kind, text))];
    }
    const before = this.#close();
    const begun = kind === "text" ? { type: kind, text: "" } : { type: kind, thinking: "", signature: "" };
    this.#open = { kind, text };
    const first = text === "" ? [] : [this.#delta(deltaOf(kind, text))];
    return [...before, ...this.#start(begun), ...first];
  }

  #start(content_block: object): readonly EventBody[] {
    const index = this.#index;
    const start = { type: "content_block_start", index, content_block };
    // As Anthropic does: clients that take their time from pings have one at once.
    return index === 0 ? [start, { type: "ping" }] : [start];
  }

  #delta(delta: object): EventBody {
    return { type: "content_block_delta", index: this.#index, delta };
  }

  #close(signature = ""): readonly EventBody[] {
    const open = this.#open;
    if (open === undefined) return [];
    this.#open = undefined;
    const { kind, text } = open;
    return [this.#stop(kind === "text" ? { type: kind, text } : { type: kind, thinking: text, signature })];
  }

  #stop(block: ContentBlock): EventBody {
    const index = this.#index;
    this.#blocks.push(block);
    return { type: "content_block_stop", index };
  }

  #call({ callId: id, tool: name, args }: AnswerCall): readonly EventBody[] {
    const input: unknown = JSON.parse(args.trim() === "" ? "{}" : args);
    return [
      ...this.#start({ type: "tool_use", id, name, input: {} }),
      this.#delta({ type: "input_json_delta", partial_json: args }),
      this.#stop({ type: "tool_use", id, name, input }),
    ];
  }
}

function deltaOf(kind: OpenBlock["kind"], text: string): object {
  return kind === "text" ? { type: "text_delta", text } : { type: "thinking_delta", thinking: text };
}
