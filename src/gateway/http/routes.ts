/**
 * Which path of the gateway is what. Names of routes are labels of the log: closed, never a path that a client chose (E4).
 */
import { GatewayError } from "../openai/index.ts";
import type { ConversationRoute } from "./conversation-routes.ts";

export type Route =
  | { readonly name: "chat" }
  /** Of the answer to a request, by its Idempotency-Key. */
  | { readonly name: "chat_stop" }
  /** One answer of a stream, by its name. */
  | { readonly name: "answer"; readonly answer: string }
  | { readonly name: "answer_stop"; readonly answer: string }
  | { readonly name: "responses" }
  | {
      readonly name: "response" | "response_items" | "response_cancel" | "response_delete";
      readonly id: string;
    }
  | ConversationRoute
  | { readonly name: "messages" }
  | { readonly name: "message_tokens" }
  | { readonly name: "models" }
  | { readonly name: "model"; readonly id: string }
  | { readonly name: "events"; readonly streamId: string }
  | { readonly name: "stop" | "forget"; readonly streamId: string }
  /** No conversation: the provider of its model answers it. */
  | { readonly name: "passed"; readonly path: string };

interface Place {
  readonly methods: readonly string[];
  readonly route: Route;
}

const READ = ["GET", "HEAD"] as const;

/** What is served: a 404 for another path lists it. */
const SERVED = [
  "POST /v1/chat/completions",
  "DELETE /v1/chat/completions",
  "GET and DELETE of what x-holdfast-resume names",
  "POST and DELETE /v1/responses",
  "GET and DELETE /v1/responses/{id}",
  "GET /v1/responses/{id}/input_items",
  "POST /v1/responses/{id}/cancel",
  "POST /v1/conversations",
  "GET, POST and DELETE /v1/conversations/{id}, and of its items",
  "POST /v1/messages",
  "POST /v1/messages/count_tokens",
  "DELETE /v1/messages",
  "GET /v1/models",
  "GET /v1/models/{id}",
  "GET /v1/streams/{id}/events",
  "DELETE /v1/streams/{id}",
  "DELETE /v1/conversations/{id of a stream of it}",
  "POST /v1/completions, /v1/embeddings, /v1/moderations, /v1/audio/... and /v1/images/...",
].join(", ");

/** Names of streams are of our making. */
const EVENTS_PATH = /^\/v1\/streams\/(?<id>[\w.:-]{1,128})\/events$/;
const STREAM_PATH = /^\/v1\/streams\/(?<id>[\w.:-]{1,128})$/;
const CONVERSATION_PATH = /^\/v1\/conversations\/(?<id>[\w.:-]{1,128})$/;
/** Those that clients name; their ids are of our making as well. */
const NAMED_PATH =
  /^\/v1\/conversations\/(?<id>conv_[0-9a-f]{32})(?<items>\/items)?(?:(?<=\/items)\/(?<item>[\w-]{1,128}))?$/;
const PASSED_PATH = /^\/v1\/(?:completions|embeddings|moderations|(?:audio|images)\/[a-z_-]{1,64})$/;
const ANSWER_PATH = /^\/v1\/answers\/(?<name>[\w-]{1,2048})$/;
const RESPONSE_PATH = /^\/v1\/responses\/(?<id>[\w-]{1,128})(?<part>\/input_items|\/cancel)?$/;
const MODEL_PATH = "/v1/models/";
const MODEL_CHARS_MAX = 512;

export function routeOf(method: string, path: string): Route {
  const place = placeOf(path, method === "DELETE");
  if (place === undefined) {
    throw refusal(
      404,
      "unknown_url",
      `Nothing is served under this path. The base URL ends with /v1, once, or without it for clients of Anthropic's API. There is: ${SERVED}.`,
    );
  }
  if (!place.methods.includes(method)) throw new MethodNotAllowed(place.methods);
  return place.route;
}

/** For a request that missed the gateway, as clients send it whose base URL has no /v1 or something before it. */
export function wrongBaseUrl(baseUrl: string): GatewayError {
  return refusal(404, "unknown_url", `Nothing is served under this path. Use ${baseUrl} as the base URL.`);
}

/** With what may be used instead. */
export class MethodNotAllowed extends GatewayError {
  readonly allow: string;

  constructor(methods: readonly string[]) {
    super({
      status: 405,
      type: "invalid_request_error",
      code: "method_not_allowed",
      message: `Use ${methods.join(" or ")} here.`,
    });
    this.allow = methods.join(", ");
  }
}

/** Clients that would rather speak WebSocket ask for it; those we know fall back to HTTP after this refusal. */
export function noUpgrade(): GatewayError {
  return refusal(
    426,
    "upgrade_not_supported",
    "There are no WebSockets here. Send the request by plain HTTP.",
  );
}

function placeOf(path: string, isStop: boolean): Place | undefined {
  if (path === "/v1/chat/completions") {
    return { methods: ["POST", "DELETE"], route: { name: isStop ? "chat_stop" : "chat" } };
  }
  const answer = ANSWER_PATH.exec(path)?.groups?.["name"];
  if (answer !== undefined) {
    return { methods: ["GET", "DELETE"], route: { name: isStop ? "answer_stop" : "answer", answer } };
  }
  if (path === "/v1/messages") {
    return { methods: ["POST", "DELETE"], route: { name: isStop ? "chat_stop" : "messages" } };
  }
  if (path === "/v1/messages/count_tokens") return { methods: ["POST"], route: { name: "message_tokens" } };
  if (path === "/v1/responses") {
    return { methods: ["POST", "DELETE"], route: { name: isStop ? "chat_stop" : "responses" } };
  }
  const response = RESPONSE_PATH.exec(path)?.groups;
  if (response !== undefined) return responsePlace(response["id"] ?? "", response["part"], isStop);
  if (path === "/v1/models") return { methods: READ, route: { name: "models" } };
  if (path.startsWith(MODEL_PATH)) {
    const id = decoded(path.slice(MODEL_PATH.length));
    return id === undefined ? undefined : { methods: READ, route: { name: "model", id } };
  }
  if (PASSED_PATH.test(path)) return { methods: ["POST"], route: { name: "passed", path } };
  const events = EVENTS_PATH.exec(path)?.groups?.["id"];
  if (events !== undefined) return { methods: ["GET"], route: { name: "events", streamId: events } };
  const stream = STREAM_PATH.exec(path)?.groups?.["id"];
  if (stream !== undefined) return { methods: ["DELETE"], route: { name: "stop", streamId: stream } };
  if (path === "/v1/conversations") return { methods: ["POST"], route: { name: "conversations" } };
  const named = NAMED_PATH.exec(path)?.groups;
  if (named !== undefined) return conversationPlace(named["id"] ?? "", named["items"], named["item"]);
  const turn = CONVERSATION_PATH.exec(path)?.groups?.["id"];
  if (turn !== undefined) return { methods: ["DELETE"], route: { name: "forget", streamId: turn } };
  return undefined;
}

function responsePlace(id: string, part: string | undefined, isDelete: boolean): Place {
  if (part === "/input_items") return { methods: ["GET"], route: { name: "response_items", id } };
  if (part === "/cancel") return { methods: ["POST"], route: { name: "response_cancel", id } };
  return { methods: ["GET", "DELETE"], route: { name: isDelete ? "response_delete" : "response", id } };
}

function conversationPlace(id: string, items: string | undefined, itemId: string | undefined): Place {
  if (itemId !== undefined)
    return { methods: ["GET", "DELETE"], route: { name: "conversation_item", id, itemId } };
  if (items !== undefined) return { methods: ["GET", "POST"], route: { name: "conversation_items", id } };
  return { methods: ["GET", "POST", "DELETE"], route: { name: "conversation", id } };
}

/** Names of models have slashes, which some clients send as they are and some as %2F. */
function decoded(text: string): string | undefined {
  if (text === "" || text.length > MODEL_CHARS_MAX) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function refusal(status: number, code: string, message: string): GatewayError {
  return new GatewayError({ status, type: "invalid_request_error", code, message });
}
