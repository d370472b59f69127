/**
 * The items of a response, and the events that tell of them: deltas in, events out. Pure.
 *
 * Thoughts, text and calls are items of their own, one behind the other; an item is complete when another one begins. The items are built by
 * the same calls that make the events, so a client that adds up the events has what the last event says.
 *
 * Invariant: each item is added, filled and done before the next one is added.
 */
import type { AnswerCall, AnswerDelta, Said } from "../../turn/answer-delta.ts";
import type { JsonObject } from "../../protocol/chat-message.ts";
import { itemId } from "./ids.ts";

type ItemStatus = "in_progress" | "completed" | "incomplete";

/** Aliases and no interfaces: they are JSON, and fit where JSON is asked for. */
type ReasoningItem = {
  readonly id: string;
  readonly type: "reasoning";
  readonly summary: readonly { readonly type: "summary_text"; readonly text: string }[];
  readonly encrypted_content?: string;
};

type MessageItem = {
  readonly id: string;
  readonly type: "message";
  readonly status: ItemStatus;
  readonly role: "assistant";
  readonly content: readonly TextContent[];
};

type TextContent = {
  readonly type: "output_text";
  readonly text: string;
  readonly annotations: readonly [];
  readonly logprobs: readonly [];
};

type CallItem = {
  readonly id: string;
  readonly type: "function_call";
  readonly status: ItemStatus;
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
};

export type OutputItem = ReasoningItem | MessageItem | CallItem;

/** Without its sequence number. */
export type EventBody = Readonly<Record<string, unknown>> & { readonly type: string };

interface OpenItem {
  readonly kind: "reasoning" | "message";
  readonly id: string;
  text: string;
}

/** Items as a client is shown them that did not ask for the tokens of thoughts. */
export function withoutTokens(items: readonly JsonObject[]): readonly JsonObject[] {
  return items.map((item) => {
    const { encrypted_content: _, ...shown } = item;
    return shown;
  });
}

export class ResponseOutput {
  readonly #responseId: string;
  readonly #isSealedShown: boolean;
  #items: OutputItem[] = [];
  #open: OpenItem | undefined;

  /** `isSealedShown`: thoughts have their tokens. */
  constructor(responseId: string, isSealedShown: boolean) {
    this.#responseId = responseId;
    this.#isSealedShown = isSealedShown;
  }

  /** Those that are complete. */
  get items(): readonly OutputItem[] {
    return this.#items;
  }

  add(delta: AnswerDelta): readonly EventBody[] {
    switch (delta.kind) {
      case "text":
        return this.#say("message", delta.text);
      case "reasoning":
        return this.#say("reasoning", delta.text);
      case "thought":
        return this.#sign(delta.token);
      case "calls":
        return [...this.#close("completed"), ...delta.calls.flatMap((call) => this.#call(call))];
      case "ended":
        return this.#close(delta.finish === "stop" ? "completed" : "incomplete");
      // What follows is another thought, and is signed by itself.
      case "restarted":
        return this.#open?.kind === "reasoning" ? this.#close("completed") : [];
      case "diverged":
        return [];
    }
  }

  /** For a reader that was shown nothing: what the answer has said in the end. */
  replace({ text, reasoning }: Said): void {
    this.#items = [];
    this.#open = undefined;
    if (reasoning !== "") this.#say("reasoning", reasoning);
    if (text !== "") this.#say("message", text);
  }

  get #index(): number {
    return this.#items.length;
  }

  #say(kind: OpenItem["kind"], text: string): readonly EventBody[] {
    const open = this.#open;
    if (open?.kind === kind) {
      open.text += text;
      return [this.#delta(open, text)];
    }
    const before = this.#close("completed");
    const [begun, added] = this.#begin(kind, text);
    return [
      ...before,
      added,
      kind === "message"
        ? { type: "response.content_part.added", ...this.#place(begun), part: textContent("") }
        : { type: "response.reasoning_summary_part.added", ...this.#place(begun), part: summaryText("") },
      this.#delta(begun, text),
    ];
  }

  #begin(kind: OpenItem["kind"], text: string): readonly [OpenItem, EventBody] {
    const id = itemId(kind === "message" ? "msg" : "rs", this.#responseId, this.#index);
    const begun: OpenItem = { kind, id, text };
    this.#open = begun;
    const item =
      kind === "message"
        ? { ...messageItem(id, "", "in_progress"), content: [] }
        : { ...reasoningItem(id, ""), summary: [] };
    return [begun, { type: "response.output_item.added", output_index: this.#index, item }];
  }

  /** The thought is whole. One of which nothing may be shown is an item all the same. */
  #sign(token: string): readonly EventBody[] {
    const isShown = this.#open?.kind === "reasoning";
    const before = isShown ? [] : this.#close("completed");
    const begun = isShown ? [] : [this.#begin("reasoning", "")[1]];
    return [...before, ...begun, ...this.#close("completed", token)];
  }

  #place({ kind, id }: OpenItem) {
    const part = kind === "message" ? { content_index: 0 } : { summary_index: 0 };
    return { item_id: id, output_index: this.#index, ...part };
  }

  #delta(open: OpenItem, delta: string): EventBody {
    const place = this.#place(open);
    return open.kind === "message"
      ? { type: "response.output_text.delta", ...place, delta, logprobs: [] }
      : { type: "response.reasoning_summary_text.delta", ...place, delta };
  }

  #close(status: ItemStatus, token?: string): readonly EventBody[] {
    const open = this.#open;
    if (open === undefined) return [];
    this.#open = undefined;
    const { kind, id, text } = open;
    const place = this.#place(open);
    if (kind === "message") {
      return [
        { type: "response.output_text.done", ...place, text, logprobs: [] },
        { type: "response.content_part.done", ...place, part: textContent(text) },
        this.#done(messageItem(id, text, status)),
      ];
    }
    const sealed = token === undefined || !this.#isSealedShown ? {} : { encrypted_content: token };
    if (text === "") return [this.#done({ ...reasoningItem(id, ""), summary: [], ...sealed })];
    return [
      { type: "response.reasoning_summary_text.done", ...place, text },
      { type: "response.reasoning_summary_part.done", ...place, part: summaryText(text) },
      this.#done({ ...reasoningItem(id, text), ...sealed }),
    ];
  }

  #call({ callId, tool, args }: AnswerCall): readonly EventBody[] {
    const id = itemId("fc", this.#responseId, this.#index);
    const place = { item_id: id, output_index: this.#index };
    const item: CallItem = {
      id,
      type: "function_call",
      status: "completed",
      call_id: callId,
      name: tool,
      arguments: args,
    };
    return [
      {
        type: "response.output_item.added",
        output_index: this.#index,
        item: { ...item, status: "in_progress", arguments: "" },
      },
      { type: "response.function_call_arguments.delta", ...place, delta: args },
      { type: "response.function_call_arguments.done", ...place, arguments: args },
      this.#done(item),
    ];
  }

  #done(item: OutputItem): EventBody {
    const output_index = this.#index;
    this.#items.push(item);
    return { type: "response.output_item.done", output_index, item };
  }
}

function messageItem(id: string, text: string, status: ItemStatus): MessageItem {
  return { id, type: "message", status, role: "assistant", content: [textContent(text)] };
}

function reasoningItem(id: string, text: string): ReasoningItem {
  return { id, type: "reasoning", summary: [summaryText(text)] };
}

function textContent(text: string): TextContent {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function summaryText(text: string) {
  return { type: "summary_text", text } as const;
}
