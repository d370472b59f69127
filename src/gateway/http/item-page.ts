/** Items as OpenAI's clients get them, and pages of them as they ask for them: `limit`, `order`, `after`. */
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import { invalidRequest } from "../openai/index.ts";

const LISTED = 20;
const LISTED_MAX = 100;

/** The newest first unless it is asked otherwise. */
export function pageOf(items: readonly JsonObject[], exchange: Pick<Exchange, "query">): object {
  const query = new URLSearchParams(exchange.query);
  const limit = Number(query.get("limit") ?? LISTED);
  if (!Number.isInteger(limit) || limit < 1 || limit > LISTED_MAX)
    throw invalidRequest("limit", `limit is a whole number from 1 to ${LISTED_MAX}`);
  const all = items.map((item, at) => Object.assign({}, shownItem(item), { id: nameOf(items, at) }));
  const ordered = query.get("order") === "asc" ? all : all.toReversed();
  const after = query.get("after");
  const from = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  const data = ordered.slice(from, from + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < ordered.length,
  };
}

/** Whatever way it was written: with its type, and the words of a message as parts. */
export function shownItem(item: JsonObject): JsonObject {
  const { type = "message", content } = item;
  if (typeof content !== "string" || type !== "message") return { ...item, type };
  const part =
    item["role"] === "assistant" ? { type: "output_text", annotations: [] } : { type: "input_text" };
  return { ...item, type, status: "completed", content: [{ ...part, text: content }] };
}

/** A page begins behind the name of the last item of the page before: no two have the same. */
function nameOf(items: readonly JsonObject[], at: number): string {
  const id = items[at]?.["id"];
  const isOwn = typeof id === "string" && items.findIndex((item) => item["id"] === id) === at;
  return isOwn ? id : `item_${at}`;
}
