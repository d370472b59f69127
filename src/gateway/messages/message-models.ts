/**
 * The models of the server, as Anthropic lists them.
 */
import type { ListedModel } from "../openai/index.ts";

interface MessageModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  /** Providers do not say when a model was made: this is when the server began to offer it. */
  readonly created_at: string;
  /** Absent: not known. */
  readonly max_input_tokens?: number;
}

/** As the query has it; null: not asked for. */
export interface ModelPage {
  readonly limit: string | null;
  readonly afterId: string | null;
  readonly beforeId: string | null;
}

const LISTED_MAX = 1_000;

export function messageModelObject({ id, contextTokensMax }: ListedModel, createdS: number): MessageModel {
  const size = contextTokensMax === undefined ? {} : { max_input_tokens: contextTokensMax };
  const created_at = new Date(createdS * 1_000).toISOString();
  return { type: "model", id, display_name: id, created_at, ...size };
}

/** All of them, unless a client asks for pages: there are never many. */
export function messageModelList(
  models: readonly ListedModel[],
  createdS: number,
  { limit, afterId, beforeId }: ModelPage,
): object {
  const from = afterId === null ? 0 : models.findIndex(({ id }) => id === afterId) + 1;
  const before = beforeId === null ? -1 : models.findIndex(({ id }) => id === beforeId);
  const within = models.slice(from, before === -1 ? undefined : before);
  const count = Math.min(Math.max(1, Math.trunc(Number(limit ?? LISTED_MAX)) || LISTED_MAX), LISTED_MAX);
  // The page before a model ends right before it.
  const shown = before === -1 ? within.slice(0, count) : within.slice(-count);
  const data = shown.map((model) => messageModelObject(model, createdS));
  return {
    data,
    has_more: shown.length < within.length,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}
