/**
 * The list of models, in the shape that the client's SDK knows: OpenAI's and Anthropic's have one path for it.
 */
import type { Exchange } from "../../transport/node/exchange.ts";
import { messageModelList, messageModelObject } from "../messages/index.ts";
import { type ListedModel, modelList, modelObject } from "../openai/index.ts";
import { speaksMessages } from "./request-headers.ts";

export function modelsAnswer(exchange: Exchange, models: readonly ListedModel[], createdS: number): object {
  if (!speaksMessages(exchange)) return modelList(models, createdS);
  const query = new URLSearchParams(exchange.query);
  const page = {
    limit: query.get("limit"),
    afterId: query.get("after_id"),
    beforeId: query.get("before_id"),
  };
  return messageModelList(models, createdS, page);
}

export function modelAnswer(exchange: Exchange, model: ListedModel, createdS: number): object {
  return speaksMessages(exchange) ? messageModelObject(model, createdS) : modelObject(model, createdS);
}

/** Passed on to its provider, which may have it. */
export function unlisted(id: string): ListedModel {
  return { id, provider: id.split("/")[0] ?? "" };
}
