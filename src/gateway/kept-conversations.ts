/**
 * Conversations that clients name: a list of items that each response in them adds to.
 *
 *     gateway_conversations  by conversation
 *
 * A row has the items that a client put there itself, and the ids of responses, in order; a response's items are read from its own row. What a response was asked
 * and said counts when it has come to its end; one that failed or was cancelled leaves nothing behind.
 *
 * A conversation is busy while its last response is under way. That follows from the response, so there is no lock that a crash could leave behind. A response is
 * written into the row together with the session that answers it, one at a time, and only if the row still is what its request has read.
 *
 * Invariant: of two responses in a conversation the second one has read what the first one said.
 */
import { z } from "zod";
import { KeyedQueue } from "../async/keyed-queue.ts";
import { isJsonObject, type JsonObject } from "../protocol/chat-message.ts";
import type { TableWrite } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";
import type {
  ConversationChange,
  FoundConversation,
  FoundResponse,
  KeptConversations as Conversations,
  NewConversation,
} from "./http/answers.ts";
import { type Names, newId } from "./names.ts";
import { uncontested } from "./neighbours.ts";
import type { GatewayLimits } from "./options.ts";
import { conversationBusy, conversationFull } from "./refusals.ts";
import type { Looked, SealedRows } from "./sealed-rows.ts";

export const CONVERSATIONS = "gateway_conversations";
const ENTRIES_MAX = 5_000;
/** Of the items that clients put there themselves. */
const ROW_BYTES_MAX = 8 * 1024 * 1024;

const OBJECT = z.custom<JsonObject>(isJsonObject);

const CONVERSATION = z.object({
  id: z.string(),
  createdS: z.number(),
  metadata: OBJECT,
  entries: z.array(z.union([z.object({ item: OBJECT }), z.object({ responseId: z.string() })])),
  /** Items of responses that were taken out, by id. */
  removed: z.array(z.string()),
  /** With everything in it. */
  expiresMs: z.number(),
});

type Conversation = z.infer<typeof CONVERSATION>;

/** The conversation that a request is of, as it has read it. */
export type ReadConversation = Pick<FoundConversation, "id" | "entryCount" | "isBusy">;

interface KeptConversationsParts {
  readonly rows: SealedRows;
  readonly names: Names;
  readonly limits: Pick<GatewayLimits, "responseTtlMs">;
  readonly environment: Pick<Environment, "now" | "randomBytes">;
  readonly response: (principal: string, id: string) => Promise<FoundResponse | undefined>;
}

export class KeptConversations implements Conversations {
  readonly #parts: KeptConversationsParts;
  readonly #turns = new KeyedQueue();

  constructor(parts: KeptConversationsParts) {
    this.#parts = parts;
  }

  async begin(principal: string, { metadata, items }: NewConversation): Promise<FoundConversation> {
    const { environment, limits } = this.#parts;
    const nowMs = environment.now();
    const conversation: Conversation = {
      id: `conv_${newId(environment)}`,
      createdS: Math.floor(nowMs / 1000),
      metadata,
      entries: this.#named(items),
      removed: [],
      expiresMs: nowMs + limits.responseTtlMs,
    };
    await this.#parts.rows.batch([await this.#write(principal, conversation)]);
    return this.#found(principal, conversation);
  }

  async find(principal: string, id: string): Promise<FoundConversation | undefined> {
    const conversation = await this.#read(principal, id);
    return conversation === undefined ? undefined : this.#found(principal, conversation);
  }

  change(principal: string, id: string, change: ConversationChange): Promise<FoundConversation | undefined> {
    const work = async (): Promise<FoundConversation | undefined> => {
      const { row: before, version } = await this.#look(principal, id);
      if (before === undefined) return undefined;
      const { metadata, items = [], removed } = change;
      const changed: Conversation = {
        ...before,
        ...(metadata === undefined ? {} : { metadata }),
        entries: [
          ...before.entries.filter((entry) => !("item" in entry) || entry.item["id"] !== removed),
          ...this.#named(items),
        ],
        removed: removed === undefined ? before.removed : [...new Set([...before.removed, removed])],
      };
      await this.#parts.rows.batch([await this.#write(principal, changed, version)]);
      return this.#found(principal, changed);
    };
    return this.inTurn(principal, id, () => uncontested(work));
  }

  async remove(principal: string, id: string): Promise<boolean> {
    return this.inTurn(principal, id, async () => {
      if ((await this.#read(principal, id)) === undefined) return false;
      const key = this.#key(principal, id);
      await this.#parts.rows.batch([{ kind: "delete", table: CONVERSATIONS, key }]);
      return true;
    });
  }

  /** One change at a time. */
  inTurn<Result>(principal: string, id: string, work: () => Promise<Result>): Promise<Result> {
    return this.#turns.run(this.#key(principal, id), work);
  }

  /** The write by which a response becomes part of it; to be made in turn. Rejects when the request does not know what was said last. */
  async append(
    principal: string,
    { id, entryCount, isBusy }: ReadConversation,
    responseId: string,
  ): Promise<TableWrite> {
    const { row: conversation, version } = await this.#look(principal, id);
    if (conversation === undefined || isBusy || conversation.entries.length !== entryCount)
      throw conversationBusy();
    const entries = [...conversation.entries, { responseId }];
    return this.#write(principal, { ...conversation, entries }, version);
  }

  #named(items: readonly JsonObject[]): Conversation["entries"] {
    return items.map((item) => {
      const type = typeof item["type"] === "string" ? item["type"] : "message";
      const prefix = PREFIXES.get(type) ?? "item";
      return { item: { ...item, type, id: `${prefix}_${newId(this.#parts.environment)}` } };
    });
  }

  async #found(principal: string, conversation: Conversation): Promise<FoundConversation> {
    const { id, createdS, metadata, entries, removed } = conversation;
    const items: JsonObject[] = [];
    let isBusy = false;
    for (const entry of entries) {
      if ("item" in entry) {
        items.push(entry.item);
        continue;
      }
      const response = await this.#parts.response(principal, entry.responseId);
      isBusy = response?.isUnderWay === true;
      if (response?.isSaid !== true) continue;
      const name = entry.responseId.slice(RESPONSE.length);
      items.push(...response.input.map((item, at) => ({ type: "message", ...item, id: `in_${name}_${at}` })));
      items.push(...response.output);
    }
    return {
      id,
      entryCount: entries.length,
      isBusy,
      items: items.filter((item) => !removed.some((gone) => gone === item["id"])),
      object: { id, object: "conversation", created_at: createdS, metadata },
    };
  }

  async #read(principal: string, id: string): Promise<Conversation | undefined> {
    return (await this.#look(principal, id)).row;
  }

  #look(principal: string, id: string): Promise<Looked<Conversation>> {
    return this.#parts.rows.look(CONVERSATIONS, this.#key(principal, id), decode);
  }

  /** Over the version that it was made of: another node may have changed it meanwhile. */
  async #write(principal: string, conversation: Conversation, expectedVersion?: number): Promise<TableWrite> {
    const { rows, environment } = this.#parts;
    const bytes = new TextEncoder().encode(JSON.stringify(conversation));
    if (conversation.entries.length > ENTRIES_MAX || bytes.length > ROW_BYTES_MAX) throw conversationFull();
    const ttlMs = conversation.expiresMs - environment.now();
    const put = await rows.put(CONVERSATIONS, this.#key(principal, conversation.id), bytes, ttlMs);
    return { ...put, expectedVersion };
  }

  #key(principal: string, id: string): string {
    return this.#parts.names.row("kept conversation", principal, id);
  }
}

const RESPONSE = "resp_";
const PREFIXES: ReadonlyMap<string, string> = new Map([
  ["message", "msg"],
  ["function_call", "fc"],
  ["function_call_output", "fco"],
  ["reasoning", "rs"],
]);

function decode(bytes: Uint8Array): Conversation {
  return CONVERSATION.parse(JSON.parse(new TextDecoder().decode(bytes)));
}
