/**
 * A conversation taken back to where it was before its newest turns, so that a message can be edited and sent again.
 *
 * The state names turns for display and messages for the model apart from each other. Each turn began with its user's message, so the messages of the
 * turns that go are those from the first of their users' messages on.
 *
 * Invariant: what is left is a prefix of what was there, in both lists.
 */
import { clone } from "../../protocol/message.ts";
import { blobIdBytes } from "../../protocol/blob-id.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { decodeChatMessage } from "../../protocol/chat-message.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import {
  allIds,
  type IdList,
  messageIds,
  newestIds,
  NO_IDS,
  turnIds,
  withIds,
} from "../../protocol/id-pages.ts";
import type { ConversationState } from "../../protocol/messages.ts";
import { blobIdOf, type ClientBlobStore } from "./blob-store.ts";
import { fullConversation, pagesOf } from "./full-conversation.ts";

/** The state with only the oldest `kept` turns; its pages are kept when it resolves. */
export async function rewound(
  blobs: ClientBlobStore,
  state: ConversationState,
  kept: number,
): Promise<ConversationState> {
  const users = await usersIn(blobs, state, kept);
  const messagesGone = await countBack(blobs, state, users);
  const pages = new Map<string, Uint8Array>();
  const put = (page: Uint8Array): Uint8Array => {
    const id = blobIdOf(page);
    pages.set(id, page);
    return blobIdBytes(id);
  };
  const turns = await idsOf(blobs, turnIds(state));
  const messages = await idsOf(blobs, messageIds(state));
  const left = {
    turns: withIds(NO_IDS, turns.slice(0, kept), put),
    messages: withIds(NO_IDS, messages.slice(0, messages.length - messagesGone), put),
  };
  for (const [id, page] of pages) await blobs.put(id, page);
  const next = clone(state);
  next.turns = [...left.turns.ids];
  next.turnPages = [...left.turns.pages];
  next.messages = [...left.messages.ids];
  next.messagePages = [...left.messages.pages];
  next.pendingToolCalls = [];
  return next;
}

/** How many messages of users the turns that go have. */
async function usersIn(blobs: ClientBlobStore, state: ConversationState, kept: number): Promise<number> {
  let users = 0;
  for (const turn of (await fullConversation(blobs, state)).turns.slice(kept)) {
    if (turn.kind !== "agent") throw cannot("it has a command or a part that is missing here");
    const later = turn.steps.filter((step) => step.kind === "found" && step.value.case === "userMessage");
    users += later.length + (turn.userMessage === undefined ? 0 : 1);
  }
  return users;
}

/** How many messages stand behind the beginning of so many users' messages, with them. */
async function countBack(blobs: ClientBlobStore, state: ConversationState, users: number): Promise<number> {
  let passed = 0;
  let left = users;
  if (left === 0) return 0;
  for await (const id of newestIds(messageIds(state), pagesOf(blobs))) {
    const bytes = await blobs.get(hexOf(id));
    if (bytes === undefined) throw cannot("a message is missing here");
    passed++;
    if (decodeChatMessage(bytes).role === "user" && --left === 0) return passed;
  }
  throw cannot("it was summarized since");
}

async function idsOf(blobs: ClientBlobStore, list: IdList): Promise<readonly Uint8Array[]> {
  const entries = await allIds(list, pagesOf(blobs));
  if (entries.some(({ kind }) => kind === "page")) throw cannot("a part of it is missing here");
  return entries.map(({ id }) => id);
}

function cannot(why: string): HoldfastError {
  return new HoldfastError("invalid_argument", `this conversation cannot go back so far: ${why}`);
}
