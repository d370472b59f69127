/**
 * Routes of conversations that clients name: make one, look at it, change what it is called by, add, list and take out items, delete it.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import { Fields, GatewayError } from "../openai/index.ts";
import { noConversation } from "../refusals.ts";
import { withoutTokens } from "../responses/index.ts";
import type { FoundConversation, KeptConversations } from "./answers.ts";
import { pageOf, shownItem } from "./item-page.ts";
import { showsSealedOf } from "./response-routes.ts";

export type ConversationRoute =
  | { readonly name: "conversations" }
  | { readonly name: "conversation" | "conversation_items"; readonly id: string }
  | { readonly name: "conversation_item"; readonly id: string; readonly itemId: string };

/** One request, with its body if it is a `POST`. */
interface ConversationCall {
  readonly principal: string;
  readonly exchange: Exchange;
  readonly body: () => Promise<unknown>;
}

export class ConversationRoutes {
  readonly #kept: KeptConversations;

  constructor(kept: KeptConversations) {
    this.#kept = kept;
  }

  async follow(route: ConversationRoute, call: ConversationCall): Promise<object> {
    switch (route.name) {
      case "conversations": {
        const body = new Fields(await call.body(), "");
        const given = { metadata: metadataOf(body) ?? {}, items: itemsOf(body) };
        return (await this.#kept.begin(call.principal, given)).object;
      }
      case "conversation":
        return this.#one(route.id, call);
      case "conversation_items":
        return this.#items(route.id, call);
      case "conversation_item":
        return this.#item(route.id, route.itemId, call);
    }
  }

  async #one(id: string, { principal, exchange, body }: ConversationCall): Promise<object> {
    if (exchange.method === "DELETE") {
      if (!(await this.#kept.remove(principal, id))) throw noConversation(id);
      return { id, object: "conversation.deleted", deleted: true };
    }
    if (exchange.method !== "POST") return (await this.#found(principal, id)).object;
    const fields = new Fields(await body(), "");
    const metadata = metadataOf(fields);
    if (metadata === undefined) throw fields.wrong("metadata", "must be given, as an object");
    return there(await this.#kept.change(principal, id, { metadata }), id).object;
  }

  async #items(id: string, { principal, exchange, body }: ConversationCall): Promise<object> {
    if (exchange.method !== "POST") {
      const { items } = await this.#found(principal, id);
      return pageOf(showsSealedOf(exchange) ? items : withoutTokens(items), exchange);
    }
    const added = itemsOf(new Fields(await body(), ""));
    const { items } = there(await this.#kept.change(principal, id, { items: added }), id);
    const data = items.slice(items.length - added.length).map(shownItem);
    return {
      object: "list",
      data,
      first_id: data[0]?.["id"] ?? null,
      last_id: data.at(-1)?.["id"] ?? null,
      has_more: false,
    };
  }

  async #item(id: string, itemId: string, { principal, exchange }: ConversationCall): Promise<object> {
    const { items } = await this.#found(principal, id);
    const [item] = withoutTokens(items.filter((one) => one["id"] === itemId));
    if (item === undefined) throw noItem(itemId);
    if (exchange.method !== "DELETE") return shownItem(item);
    return there(await this.#kept.change(principal, id, { removed: itemId }), id).object;
  }

  async #found(principal: string, id: string): Promise<FoundConversation> {
    return there(await this.#kept.find(principal, id), id);
  }
}

function there(found: FoundConversation | undefined, id: string): FoundConversation {
  if (found === undefined) throw noConversation(id);
  return found;
}

function metadataOf(body: Fields): JsonObject | undefined {
  const metadata = body.raw("metadata");
  if (metadata === undefined || isJsonObject(metadata)) return metadata;
  throw body.wrong("metadata", "must be an object");
}

function itemsOf(body: Fields): readonly JsonObject[] {
  return (body.list("items") ?? []).map((item) => {
    if (isJsonObject(item)) return item;
    throw body.wrong("items", "must be a list of items");
  });
}

function noItem(id: string): GatewayError {
  const message = `Item with id ${JSON.stringify(id)} not found in this conversation.`;
  return new GatewayError({ status: 404, type: "invalid_request_error", code: "item_not_found", message });
}
