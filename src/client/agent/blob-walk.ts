/**
 * Which blobs a conversation is made of: what each kind of blob names, and a walk over all of them.
 *
 * The only place that knows the shape, so that what is shown and what is kept from the clean-up agree.
 */
import { fromBinary } from "../../protocol/message.ts";
import { type ChatMessage, decodeChatMessage } from "../../protocol/chat-message.ts";
import { idsIn, type IdList, messageIds, PAGE_IDS, turnIds } from "../../protocol/id-pages.ts";
import {
  type Content,
  type ConversationState,
  ShellSuccessSchema,
  StepBlobSchema,
  TurnBlobSchema,
  type UserMessage,
  UserMessageSchema,
} from "../../protocol/messages.ts";
import type { ClientBlobStore } from "./blob-store.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { blobIn } from "../../turn/content.ts";

type Kind = "message" | "turn" | "user_message" | "step" | "shell_output" | "leaf" | Page;

/** Of ids of such blobs, and how many of them it stands for. */
interface Page {
  readonly of: "message" | "turn";
  readonly count: number;
}

interface Reference {
  readonly id: string;
  readonly kind: Kind;
}

export interface Reachable {
  readonly ids: ReadonlySet<string>;
  /** Named, and not there. */
  readonly missing: readonly string[];
  /** There, and not readable: what they name is not known. */
  readonly unreadable: readonly string[];
}

/** Everything that these states reach. */
export async function reach(
  blobs: Pick<ClientBlobStore, "get">,
  states: Iterable<ConversationState>,
  others: Iterable<string> = [],
): Promise<Reachable> {
  const ids = new Set<string>(others);
  const missing: string[] = [];
  const unreadable: string[] = [];
  const waiting = [...states].flatMap(namedByState);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (ids.has(next.id)) continue;
    ids.add(next.id);
    if (next.kind === "leaf") continue;
    try {
      const bytes = await blobs.get(next.id);
      if (bytes === undefined) missing.push(next.id);
      else waiting.push(...namedBy(next.kind, bytes));
    } catch {
      unreadable.push(next.id);
    }
  }
  return { ids, missing, unreadable };
}

function namedByState(state: ConversationState): readonly Reference[] {
  return [
    ...listed(messageIds(state), "message"),
    ...listed(turnIds(state), "turn"),
    ...references(state.todos, "leaf"),
    ...references([state.summary], "leaf"),
    ...state.subagentStates.flatMap(({ state: child }) => (child === undefined ? [] : namedByState(child))),
  ];
}

function listed({ pages, ids }: IdList, of: Page["of"]): readonly Reference[] {
  return [...pages.flatMap(({ page, count }) => references([page], { of, count })), ...references(ids, of)];
}

function namedBy(kind: Exclude<Kind, "leaf">, bytes: Uint8Array): readonly Reference[] {
  if (typeof kind === "object") return namedByPage(kind, bytes);
  switch (kind) {
    case "message":
      return filesOf(decodeChatMessage(bytes)).map((id) => ({ id, kind: "leaf" }));
    case "turn":
      return namedByTurn(bytes);
    case "user_message":
      return namedByUserMessage(fromBinary(UserMessageSchema, bytes));
    case "step":
      return namedByStep(bytes);
    case "shell_output": {
      const { stdout, stderr } = fromBinary(ShellSuccessSchema, bytes);
      return contents([stdout, stderr]);
    }
  }
}

function namedByPage({ of, count }: Page, bytes: Uint8Array): readonly Reference[] {
  const inside = count / PAGE_IDS;
  return references(idsIn(bytes), inside > 1 ? { of, count: inside } : of);
}

function namedByTurn(bytes: Uint8Array): readonly Reference[] {
  const { turn } = fromBinary(TurnBlobSchema, bytes);
  switch (turn.case) {
    case "agentTurn":
      return [
        ...references([turn.value.userMessage], "user_message"),
        ...references(turn.value.steps, "step"),
      ];
    case "shellTurn":
      return [
        ...references([turn.value.shellCommand], "leaf"),
        ...references([turn.value.shellOutput], "shell_output"),
      ];
    case undefined:
      throw unknownKind();
  }
}

function namedByStep(bytes: Uint8Array): readonly Reference[] {
  const { step } = fromBinary(StepBlobSchema, bytes);
  switch (step.case) {
    case "toolCall": {
      const { argsJson, result, files } = step.value;
      return contents([argsJson, result, ...files.map(({ content }) => content)]);
    }
    case "userMessage":
      return namedByUserMessage(step.value);
    case "assistantMessage":
    case "thinkingMessage":
      return [];
    case undefined:
      throw unknownKind();
  }
}

function namedByUserMessage({ attachments }: UserMessage): readonly Reference[] {
  return contents(attachments.map(({ content }) => content));
}

/** Written by a newer version: what it names is not known here. */
function unknownKind(): Error {
  return new Error("a blob of a kind that this client does not know");
}

function filesOf(message: ChatMessage): readonly string[] {
  const parts = message.content.flatMap((part) => {
    if (part.type === "file") return [part];
    return part.type === "tool-result" ? (part.files ?? []) : [];
  });
  return parts.flatMap(({ blobId }) => (blobId === undefined ? [] : [blobId]));
}

function contents(all: readonly (Content | undefined)[]): readonly Reference[] {
  return all.flatMap((content) => {
    const id = blobIn(content);
    return id === undefined || id === "" ? [] : [{ id, kind: "leaf" }];
  });
}

/** An empty id stands for none. */
function references(ids: readonly Uint8Array[], kind: Kind): readonly Reference[] {
  return ids.filter((id) => id.length > 0).map((id) => ({ id: hexOf(id), kind }));
}
