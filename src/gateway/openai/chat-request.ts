/**
 * The body of `POST /v1/chat/completions`, read and checked as a whole before anything happens.
 *
 * Whatever would change the answer and cannot be done is refused, with the field's name. The rest of what OpenAI's clients send
 * (`user`, `metadata`, `store`, `service_tier`, `safety_identifier`, and unknown fields) is accepted and
 * ignored, because clients send it to every provider; the response names it.
 */
import { type ContentRules } from "./chat-content.ts";
import { chatMessages } from "./chat-messages.ts";
import { chatOptions } from "./chat-options.ts";
import { chatTools } from "./chat-tools.ts";
import type { AnswerRequest } from "./door.ts";
import { Fields } from "./fields.ts";
import { wishesOf } from "./wishes.ts";

/** Throws a GatewayError that names the field. */
export function parseChatRequest(body: unknown, rules: Partial<ContentRules> = {}): AnswerRequest {
  const fields = new Fields(body, "");
  const models = modelsOf(fields);
  const model = fields.has("model") ? fields.needText("model") : (models[0] ?? fields.needText("model"));
  const fallbacks = models.filter((name) => name !== model);
  refuseUnsupported(fields);
  const stream = fields.flag("stream") ?? false;
  const tools = chatTools(fields);
  const { system, messages } = chatMessages(fields, { allowRemoteImages: false, ...rules });
  const fallen = fallbacks.length === 0 ? {} : { fallbackModels: fallbacks };
  return {
    model,
    fallbacks,
    stream,
    includeUsage: fields.object("stream_options")?.flag("include_usage") ?? false,
    system,
    messages,
    tools,
    // What a stream has shown cannot be taken back.
    options: { ...chatOptions(fields, tools), ...(stream ? { shownIsFinal: true } : {}), ...fallen },
    wishes: wishesOf(fields),
  };
}

const MODELS_MAX = 16;

function modelsOf(fields: Fields): readonly string[] {
  const listed = fields.list("models") ?? [];
  const names = listed.filter((name) => typeof name === "string" && name !== "");
  if (names.length !== listed.length || names.length > MODELS_MAX) {
    throw fields.wrong("models", `must be a list of at most ${MODELS_MAX} names of models`);
  }
  return [...new Set(names.map(String))];
}

function refuseUnsupported(fields: Fields): void {
  const choices = fields.whole("n", 1, 128);
  if (choices !== undefined && choices > 1) {
    throw fields.unsupported("n", "one answer per request; send the request again for another one");
  }
  if (fields.flag("logprobs") === true || (fields.whole("top_logprobs", 0, 20) ?? 0) > 0) {
    throw fields.unsupported("logprobs", "log probabilities are not given; leave it out");
  }
  const isText = fields.list("modalities")?.every((modality) => modality === "text") ?? true;
  if (fields.has("audio") || !isText) {
    throw fields.unsupported(isText ? "audio" : "modalities", "answers are text; leave it out");
  }
  if (fields.has("web_search_options")) {
    throw fields.unsupported("web_search_options", "declare a function tool that searches");
  }
}
