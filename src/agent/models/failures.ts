/**
 * Everything that can go wrong with a provider, as a `ModelFailure` that says what to do.
 *
 * The kind comes from status and code. Providers' words are read in one place only, for what they have no code for: a
 * prompt that is too long. They are shown when they can help, and never with an API key or a piece of the
 * prompt in them. The SDK's errors hold the whole request, so none is kept as a cause: a log would print it.
 */
import {
  APICallError,
  InvalidArgumentError,
  InvalidPromptError,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import { ModelFailure, type ModelFailureKind } from "../model.ts";
import { type ProviderError, readProviderError } from "./provider-error.ts";
import { retryAfterMs } from "./retry-after.ts";
import { ProviderBreak } from "./upstream/provider-break.ts";
import { Redirected } from "./upstream/redirects.ts";

/** A provider failed after it had begun to answer. */
export class StreamBroken extends Error {
  /** What the provider said; undefined when it just stopped. */
  readonly said: unknown;
  readonly kind: ModelFailureKind;

  constructor(said: unknown, kind: ModelFailureKind = "unavailable") {
    super("the provider's answer broke off");
    this.said = said;
    this.kind = kind;
  }
}

interface FailureContext {
  /** `provider/model`. */
  readonly modelId: string;
  /** How the user puts a wrong API key right, e.g. `check OPENAI_API_KEY`. */
  readonly keyRemedy: string;
  /** The provider's words, made fit to be shown; empty when they are not. */
  readonly cleaned: (words: string) => string;
}

interface Found {
  readonly kind: ModelFailureKind;
  readonly status?: number;
  readonly retryAfterMs?: number | undefined;
  readonly words?: string;
  readonly remedy?: string;
  /** Unless said otherwise it is the kind that decides. */
  readonly isPassing?: boolean;
}

export function judge(error: unknown, context: FailureContext): ModelFailure {
  if (error instanceof ModelFailure) return error;
  const found = findingOf(error, context);
  const { kind, status = 0, words = "", remedy = REMEDIES[kind] } = found;
  const said = words === "" ? "" : context.cleaned(words);
  const what = `${context.modelId}: ${SENTENCES[kind]}${status === 0 ? "" : ` (HTTP ${status})`}`;
  const message = `${what}${said === "" ? "" : `: ${said.replace(/[.\s]+$/, "")}`}. ${remedy}`;
  const { isPassing = kind === "rate_limited" || kind === "unavailable" } = found;
  return new ModelFailure(kind, message, { status, retryAfterMs: found.retryAfterMs, isPassing });
}

const SENTENCES: Readonly<Record<ModelFailureKind, string>> = {
  invalid_request: "the provider refused the request",
  model_not_found: "the provider does not know this model",
  rate_limited: "the provider's rate limit is reached",
  unavailable: "the provider cannot answer",
  unauthenticated: "the provider did not accept the API key",
  context_too_long: "the conversation is longer than the model can read",
  content_filtered: "the provider's content filter stopped the answer",
  not_held: "the answer was cut off, and its call is no longer held",
};

const REMEDIES: Readonly<Record<ModelFailureKind, string>> = {
  invalid_request: "Change the options or the message.",
  model_not_found: "Check the model's name and the provider's baseURL.",
  rate_limited: "Wait a while, or use another model.",
  unavailable: "Try again, or use another model.",
  unauthenticated: "Check the API key.",
  context_too_long: "Summarize the conversation, or start a new one.",
  content_filtered: "Say it in other words.",
  not_held: "Send it again.",
};

function findingOf(error: unknown, context: FailureContext): Found {
  if (error instanceof ProviderBreak) return { kind: "unavailable", words: brokenWords(error) };
  if (error instanceof StreamBroken) return broken(error, context);
  if (error instanceof Redirected) return redirected(error);
  if (APICallError.isInstance(error)) return refused(error, context);
  if (UnsupportedFunctionalityError.isInstance(error)) {
    return { kind: "invalid_request", words: `it does not take ${error.functionality}` };
  }
  if (InvalidArgumentError.isInstance(error) || InvalidPromptError.isInstance(error)) {
    return { kind: "invalid_request", words: error.message };
  }
  const name = error instanceof Error ? error.name : typeof error;
  return { kind: "unavailable", words: `its answer could not be read (${name})` };
}

/** Which address gets the API key is the operator's decision. */
function redirected({ status, origin }: Redirected): Found {
  const words = `it redirects to ${origin}, and redirects are not followed: the other host would get the API key`;
  const remedy = "If that host is the right one, set the provider's baseURL to an address there.";
  return { kind: "unavailable", status, words, remedy, isPassing: false };
}

function brokenWords({ why, silentMs, cause }: ProviderBreak): string {
  if (why === "stall")
    return `nothing of the answer was received for ${Math.max(1, Math.round(silentMs / 1_000))} s`;
  return why === "decode" ? "its answer could not be read" : `its answer broke off${codeIn(cause)}`;
}

function broken({ said, kind }: StreamBroken, context: FailureContext): Found {
  const read = said instanceof Error && !APICallError.isInstance(said) ? undefined : readProviderError(said);
  if (read !== undefined && read.words !== "") return found(read.status, read, context, undefined);
  if (kind === "content_filtered") return { kind };
  const words =
    said instanceof Error ? `its answer could not be read (${said.name})` : "its answer broke off";
  return { kind, words };
}

function refused(error: APICallError, context: FailureContext): Found {
  const read = readProviderError(error.data ?? parsedBody(error.responseBody));
  const status = error.statusCode ?? 0;
  if (status === 0) {
    return { kind: "unavailable", words: `no connection${codeIn(error.cause)}`, remedy: UNREACHED };
  }
  if (status < 300) return { kind: "unavailable", words: `its answer broke off${codeIn(error.cause)}` };
  return found(status, read, context, retryAfterMs(error.responseHeaders, Date.now()));
}

const UNREACHED = "Check that it runs, its baseURL and the network.";

/** The system's code says it all, and holds nothing of the request. */
function codeIn(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  if ("code" in cause && typeof cause.code === "string") return ` (${cause.code})`;
  return codeIn(cause.cause);
}

function found(
  status: number,
  read: ProviderError,
  context: FailureContext,
  headerMs: number | undefined,
): Found {
  const { codes, words } = read;
  const has = (...names: readonly string[]): boolean => names.some((name) => codes.includes(name));
  const wait = headerMs ?? read.retryAfterMs;
  if (status === 401 || status === 403 || has("authentication_error", "API_KEY_INVALID")) {
    // Their words about API keys quote them.
    return { kind: "unauthenticated", status, remedy: `${context.keyRemedy}.` };
  }
  if (has("insufficient_quota", "billing_error") || status === 402) {
    const remedy = "Check plan and billing at the provider.";
    return {
      kind: "rate_limited",
      status,
      words: "the account has no credit left",
      remedy,
      isPassing: false,
    };
  }
  if (status === 404 || has("not_found_error", "model_not_found"))
    return { kind: "model_not_found", status, words };
  if (status === 429) return { kind: "rate_limited", status, retryAfterMs: wait, ...waitFor(wait) };
  if (status === 413 || has("context_length_exceeded", "request_too_large") || isTooLong(status, words)) {
    return { kind: "context_too_long", status, words };
  }
  if (has("content_filter", "content_policy_violation", "invalid_prompt"))
    return { kind: "content_filtered", status };
  if (status === 408 || status === 409 || status >= 500)
    return { kind: "unavailable", status, words, retryAfterMs: wait };
  if (status >= 400) return { kind: "invalid_request", status, words };
  return { kind: "unavailable", words };
}

function waitFor(waitMs: number | undefined): { readonly remedy?: string } {
  if (waitMs === undefined) return {};
  return { remedy: `Wait ${Math.ceil(waitMs / 1_000)} s, or use another model.` };
}

/** Anthropic, Google, vLLM and Ollama have no code for it: only here, the words decide. */
function isTooLong(status: number, words: string): boolean {
  return (
    (status === 400 || status === 422) &&
    /prompt is too long|maximum context length|context (?:length|window|size)|token count .*exceeds/i.test(
      words,
    )
  );
}

function parsedBody(body: string | undefined): unknown {
  try {
    return JSON.parse(body ?? "");
  } catch {
    return undefined;
  }
}
