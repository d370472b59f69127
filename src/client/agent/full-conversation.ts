/**
 * A conversation rebuilt from its checkpoint, for display: turns, todos, summary.
 *
 * An item that cannot be read is replaced by a line that says so; the others are shown.
 */
import { type Schema, fromBinary, type MessageShape } from "../../protocol/message.ts";
import { allIds, type IdEntry, idsIn, type ReadPages, turnIds } from "../../protocol/id-pages.ts";
import {
  type AgentTurn,
  type ConversationState,
  type ShellCommandAction,
  ShellCommandActionSchema,
  type ShellSuccess,
  ShellSuccessSchema,
  type ShellTurn,
  type StepBlob,
  StepBlobSchema,
  type TodoItem,
  TodoItemSchema,
  TurnBlobSchema,
  type UserMessage,
  UserMessageSchema,
} from "../../protocol/messages.ts";
import type { ClientBlobStore } from "./blob-store.ts";
import type { TodoView } from "../../turn/view.ts";
import { blobIdBytes } from "../../protocol/blob-id.ts";
import { hexOf } from "../../protocol/bytes.ts";

export interface Missing {
  readonly kind: "missing";
  readonly blobId: string;
  /** `not_found`: this client does not have it. `unreadable`: it is damaged, or of a newer version. */
  readonly reason: "not_found" | "unreadable";
}

export type Item<Value> = { readonly kind: "found"; readonly value: Value } | Missing;

export interface FullAgentTurn {
  readonly kind: "agent";
  /** Undefined for a turn that continued without one. */
  readonly userMessage: Item<UserMessage> | undefined;
  readonly steps: readonly Item<StepBlob["step"]>[];
}

export interface FullShellTurn {
  readonly kind: "shell";
  readonly command: Item<ShellCommandAction>;
  readonly output: Item<ShellSuccess>;
}

export interface FullConversation {
  /** A page of them that cannot be read is one that is missing. */
  readonly turns: readonly (FullAgentTurn | FullShellTurn | Missing)[];
  readonly todos: readonly Item<TodoItem>[];
  /** What stands for the turns that were summarized away; undefined = none. */
  readonly summary: Item<string> | undefined;
}

type Blobs = Pick<ClientBlobStore, "get">;

/** So many turns are read at a time: a page that opens a long conversation stays awake meanwhile. */
const TURNS_AT_ONCE = 32;

export async function fullConversation(blobs: Blobs, state: ConversationState): Promise<FullConversation> {
  const { summary } = state;
  const entries = await turnsOf(blobs, state);
  const turns: FullConversation["turns"][number][] = [];
  for (let from = 0; from < entries.length; from += TURNS_AT_ONCE) {
    const some = entries.slice(from, from + TURNS_AT_ONCE);
    turns.push(...(await Promise.all(some.map((entry) => turn(blobs, entry)))));
  }
  return {
    turns,
    todos: await Promise.all(state.todos.map((id) => item(blobs, id, TodoItemSchema))),
    summary: summary.length === 0 ? undefined : await read(blobs, summary, (bytes) => utf8.decode(bytes)),
  };
}

async function turnsOf(blobs: Blobs, state: ConversationState): Promise<readonly IdEntry[]> {
  const list = turnIds(state);
  try {
    return await allIds(list, pagesOf(blobs));
  } catch {
    // Pages that cannot be: what is beside them is shown.
    return [
      ...list.pages.map(({ page }): IdEntry => ({ kind: "page", id: page })),
      ...list.ids.map((id): IdEntry => ({ kind: "id", id })),
    ];
  }
}

/** Reads pages of ids from this client's own blobs. */
export function pagesOf(blobs: Blobs): ReadPages {
  return async (pageIds) => {
    const pages = await Promise.all(pageIds.map((id) => read(blobs, id, idsIn)));
    return pages.map((page) => (page.kind === "found" ? page.value : undefined));
  };
}

/** The todos among these blobs that can be read, by blob id. */
export async function todosIn(
  blobs: Blobs,
  blobIds: readonly string[],
): Promise<Readonly<Record<string, TodoView>>> {
  const found: Record<string, TodoView> = {};
  for (const blobId of blobIds) {
    const todo = await item(blobs, blobIdBytes(blobId), TodoItemSchema);
    if (todo.kind === "missing") continue;
    const { id, text, status } = todo.value;
    found[blobId] = { id, text, status };
  }
  return found;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

async function turn(blobs: Blobs, { kind, id }: IdEntry): Promise<FullAgentTurn | FullShellTurn | Missing> {
  if (kind === "page") return missingPage(blobs, id);
  const found = await item(blobs, id, TurnBlobSchema);
  if (found.kind === "missing") return found;
  switch (found.value.turn.case) {
    case "agentTurn":
      return agentTurn(blobs, found.value.turn.value);
    case "shellTurn":
      return shellTurn(blobs, found.value.turn.value);
    case undefined:
      return { kind: "missing", blobId: hexOf(id), reason: "unreadable" };
  }
}

async function missingPage(blobs: Blobs, id: Uint8Array): Promise<Missing> {
  const found = await read(blobs, id, idsIn);
  return found.kind === "missing" ? found : { kind: "missing", blobId: hexOf(id), reason: "unreadable" };
}

async function agentTurn(blobs: Blobs, { userMessage, steps }: AgentTurn): Promise<FullAgentTurn> {
  return {
    kind: "agent",
    userMessage: userMessage.length === 0 ? undefined : await item(blobs, userMessage, UserMessageSchema),
    steps: await Promise.all(
      steps.map((id) => read(blobs, id, (bytes) => fromBinary(StepBlobSchema, bytes).step)),
    ),
  };
}

async function shellTurn(blobs: Blobs, { shellCommand, shellOutput }: ShellTurn): Promise<FullShellTurn> {
  return {
    kind: "shell",
    command: await item(blobs, shellCommand, ShellCommandActionSchema),
    output: await item(blobs, shellOutput, ShellSuccessSchema),
  };
}

function item<Desc extends Schema>(
  blobs: Blobs,
  id: Uint8Array,
  schema: Desc,
): Promise<Item<MessageShape<Desc>>> {
  return read(blobs, id, (bytes) => fromBinary(schema, bytes));
}

async function read<Value>(
  blobs: Blobs,
  id: Uint8Array,
  decode: (bytes: Uint8Array) => Value,
): Promise<Item<Value>> {
  const blobId = hexOf(id);
  try {
    const bytes = await blobs.get(blobId);
    if (bytes === undefined) return { kind: "missing", blobId, reason: "not_found" };
    return { kind: "found", value: decode(bytes) };
  } catch {
    return { kind: "missing", blobId, reason: "unreadable" };
  }
}
