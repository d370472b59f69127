/**
 * Whose words are whose: what a provider attaches to its words goes back to the model that said them, and to no other.
 *
 * A signature is worth something to the model that gave it. Another one refuses it, or reads thoughts that are not its own. So the id of the model stands
 * beside what the provider attached, wherever the conversation is kept.
 */
import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { ModelPart } from "../model.ts";
import { type Dialect, NAMESPACES } from "./dialect.ts";

/** Beside the providers' own names. */
const OURS = "holdfast";

/** The part with the id of the model that said it, if its provider attached something. */
export function markedBy(modelId: string, part: ModelPart): ModelPart {
  if (!("metadata" in part) || part.metadata === undefined) return part;
  return { ...part, metadata: { ...part.metadata, [OURS]: { model: modelId } } };
}

/** Attached by this provider, to words of this model; undefined `modelId`: of any. */
export function isOwn(
  metadata: JsonObject | undefined,
  dialect: Dialect,
  modelId: string | undefined,
): boolean {
  return metadata !== undefined && NAMESPACES[dialect] in metadata && !isForeign(metadata, modelId);
}

/** Of another model. What was kept without a model's id may be of any. */
function isForeign({ [OURS]: mark }: JsonObject, modelId: string | undefined): boolean {
  const model = isJsonObject(mark) ? mark["model"] : undefined;
  return model !== undefined && modelId !== undefined && model !== modelId;
}

/** What a provider attached to its words goes back to it unread; nothing of another model's. */
export function returned(
  metadata: JsonObject | undefined,
  dialect: Dialect,
  modelId: string | undefined,
): { providerOptions?: SharedV4ProviderOptions } {
  // Google asks for what it has attached to calls, whichever of its models they are of.
  if (metadata === undefined || (dialect !== "google" && isForeign(metadata, modelId))) return {};
  const providerOptions: SharedV4ProviderOptions = {};
  for (const [name, own] of Object.entries(metadata))
    if (name !== OURS && isJsonObject(own)) providerOptions[name] = own;
  return { providerOptions };
}
