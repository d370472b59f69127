/**
 * `providers` and `models` of `holdfast.config.json`.
 *
 * An API key has no place in the file: it names the environment variable that holds one. What cannot work, such as a
 * provider without an address, is said at the start and not at the first call.
 */
import { PROVIDER_TYPES } from "../agent/models/dialect.ts";
import { MODEL_NAME_RULE, modelNameOf } from "../protocol/model-name.ts";
import type { ModelLimits, ModelsConfig, ProviderConfig } from "../agent/models/index.ts";
import { type FieldCheck, present } from "./field-check.ts";

const PROVIDER_FIELDS = ["type", "baseURL", "apiKeyEnv", "headers", "silenceMs", "writingSilenceMs"] as const;
const SILENCE_MS_MIN = 1_000;
/** Node's own limit for an answer that does not come. */
const SILENCE_MS_MAX = 300_000;
const TOKENS_MAX = 100_000_000;

/** They would carry an API key. */
const KEY_HEADERS = /^(?:authorization|proxy-authorization|x-api-key|api-key|x-goog-api-key|cookie)$/i;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
const HEADER_VALUE = /^[\x20-\x7e]{1,4000}$/;

export function readProviders(
  check: FieldCheck,
  value: unknown,
): Readonly<Record<string, ProviderConfig>> | undefined {
  if (value === undefined) return undefined;
  const named = check.named(value, "providers").map(([name, fields]) => {
    const place = `providers.${name}`;
    if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(name)) {
      throw check.wrong(place, "is named with small letters, digits, - and _");
    }
    return [name, readProvider(check, place, fields)] as const;
  });
  return Object.fromEntries(named);
}

function readProvider(check: FieldCheck, place: string, value: unknown): ProviderConfig {
  const fields = check.object(value, place, PROVIDER_FIELDS);
  const type = PROVIDER_TYPES.find((known) => known === fields["type"]);
  if (type === undefined) throw check.wrong(`${place}.type`, `is one of ${PROVIDER_TYPES.join(", ")}`);
  const baseURL = readAddress(check, `${place}.baseURL`, fields["baseURL"]);
  if (type === "openai-compatible" && baseURL === undefined) {
    throw check.wrong(`${place}.baseURL`, 'is missing: an address such as "http://127.0.0.1:8000/v1"');
  }
  const silence = (name: "silenceMs" | "writingSilenceMs"): number | undefined =>
    check.whole(fields[name], `${place}.${name}`, SILENCE_MS_MIN, SILENCE_MS_MAX);
  return {
    type,
    ...present({
      baseURL,
      apiKeyEnv: readVariable(check, `${place}.apiKeyEnv`, fields["apiKeyEnv"]),
      headers: readHeaders(check, `${place}.headers`, fields["headers"]),
      silenceMs: silence("silenceMs"),
      writingSilenceMs: silence("writingSilenceMs"),
    }),
  };
}

function readAddress(check: FieldCheck, place: string, value: unknown): string | undefined {
  const text = check.text(value, place);
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw check.wrong(place, "is an address that begins with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") throw check.wrong(place, "holds no user name or password");
  return text;
}

function readVariable(check: FieldCheck, place: string, value: unknown): string | undefined {
  const text = check.text(value, place);
  // Whoever pastes the API key itself is told so, and not shown it again.
  if (text !== undefined && !/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(text)) {
    throw check.wrong(
      place,
      'is the name of an environment variable, such as "OPENAI_API_KEY", not the API key',
    );
  }
  return text;
}

function readHeaders(
  check: FieldCheck,
  place: string,
  value: unknown,
): Readonly<Record<string, string>> | undefined {
  if (value === undefined) return undefined;
  const headers = check.named(value, place).map(([name, said]) => {
    if (!HEADER_NAME.test(name)) throw check.wrong(`${place}.${name}`, "is no name of a header");
    if (KEY_HEADERS.test(name)) {
      throw check.wrong(`${place}.${name}`, 'does not belong in a file; use "apiKeyEnv"');
    }
    if (typeof said !== "string" || !HEADER_VALUE.test(said)) {
      throw check.wrong(`${place}.${name}`, "is text of visible ASCII characters");
    }
    return [name, said] as const;
  });
  return Object.fromEntries(headers);
}

export function readModels(check: FieldCheck, value: unknown): ModelsConfig | undefined {
  if (value === undefined) return undefined;
  const fields = check.object(value, "models", ["default", "offered", "limits"]);
  const offered = check.texts(fields["offered"], "models.offered", objectionToId);
  if (offered?.length === 0) throw check.wrong("models.offered", "names at least one model, or is left out");
  return present({
    default: readId(check, "models.default", fields["default"]),
    offered,
    limits: readLimits(check, fields["limits"]),
  });
}

function readId(check: FieldCheck, place: string, value: unknown): string | undefined {
  const text = check.text(value, place);
  const why = text === undefined ? undefined : objectionToId(text);
  if (why !== undefined) throw check.wrong(place, why);
  return text;
}

function objectionToId(text: string): string | undefined {
  if (modelNameOf(text) !== text) return `${MODEL_NAME_RULE}, unlike ${JSON.stringify(text)}`;
  return /^[^/\s]+\/\S+$/.test(text) ? undefined : `is "provider/model", not ${JSON.stringify(text)}`;
}

function readLimits(check: FieldCheck, value: unknown): Readonly<Record<string, ModelLimits>> | undefined {
  if (value === undefined) return undefined;
  const limits = check.named(value, "models.limits").map(([id, said]) => {
    const place = `models.limits.${id}`;
    const why = objectionToId(id);
    if (why !== undefined) throw check.wrong(place, why);
    const fields = check.object(said, place, ["contextTokensMax", "outputTokensMax"]);
    const tokens = (name: string): number | undefined =>
      check.whole(fields[name], `${place}.${name}`, 1, TOKENS_MAX);
    const limit: ModelLimits = present({
      contextTokensMax: tokens("contextTokensMax"),
      outputTokensMax: tokens("outputTokensMax"),
    });
    return [id, limit] as const;
  });
  return Object.fromEntries(limits);
}
