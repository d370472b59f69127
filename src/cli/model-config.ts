/**
 * `providers` and `models` of `holdfast.config.json`.
 *
 * An API key has no place in the file: it names the environment variable that holds one. A start refuses what cannot work, such as a
 * provider without an address; it does not wait for the first call.
 */
import * as z from "../protocol/rules.ts";
import { PROVIDER_TYPES } from "../agent/models/dialect.ts";
import { PREFILL_RULES } from "../agent/models/prefill.ts";
import { CONTINUE_RULES } from "../agent/models/providers.ts";
import {
  fields,
  httpUrl,
  list,
  named,
  oneOf,
  secretThat,
  textThat,
  whole,
  yesOrNo,
} from "../protocol/checked.ts";
import { MODEL_NAME_RULE, modelNameOf } from "../protocol/model-name.ts";

/** Up to Node's own limit for an answer that does not come. */
const SILENCE_MS = { min: 1_000, max: 300_000 } as const;
const TOKENS_MAX = 100_000_000;
const COOLDOWN_S_MAX = 86_400;

/** They would carry an API key. */
const KEY_HEADERS = /^(?:authorization|proxy-authorization|x-api-key|api-key|x-goog-api-key|cookie)$/i;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
const HEADER_VALUE = /^[\x20-\x7e]{1,4000}$/;

const headerName = textThat((name) => HEADER_NAME.test(name), "must be the name of a header").check(
  z.refine((name) => !KEY_HEADERS.test(name), { error: 'does not belong in a file; use "apiKeyEnv"' }),
);
const headerValue = secretThat(
  (value) => HEADER_VALUE.test(value),
  "must be text of visible ASCII characters",
);

// A person who pastes the API key itself is not shown it again.
const NO_VARIABLE = 'must be the name of an environment variable, such as "OPENAI_API_KEY", not the API key';
const variableName = secretThat((name) => /^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name), NO_VARIABLE);
/** Several API keys of one provider. */
const variableNames = list(variableName, NO_VARIABLE).check(
  z.minLength(1, { error: "must name at least one environment variable, or be left out" }),
);

const CONTINUES = `must be one of ${CONTINUE_RULES.join(", ")}`;
const continueRule = z.enum(CONTINUE_RULES, {
  error: ({ input }) =>
    input === "best"
      ? `is reserved: a text that a model was told to write on cannot be proved; it ${CONTINUES}`
      : CONTINUES,
});

const provider = fields(
  {
    type: oneOf(PROVIDER_TYPES),
    baseURL: z.exactOptional(httpUrl()),
    apiKeyEnv: z.exactOptional(z.union([variableName, variableNames], { error: NO_VARIABLE })),
    headers: z.exactOptional(named(headerValue, headerName)),
    silenceMs: z.exactOptional(whole(SILENCE_MS.min, SILENCE_MS.max)),
    writingSilenceMs: z.exactOptional(whole(SILENCE_MS.min, SILENCE_MS.max)),
    continue: z.exactOptional(continueRule),
    resume: z.exactOptional(yesOrNo()),
    prefill: z.exactOptional(oneOf(PREFILL_RULES)),
    cooldown: z.exactOptional(
      fields({
        failures: z.exactOptional(whole(1, 1_000)),
        seconds: z.exactOptional(whole(0, COOLDOWN_S_MAX)),
      }),
    ),
  },
  (name) =>
    isApiKey(name)
      ? 'does not belong in a file; name the environment variable that holds it in "apiKeyEnv"'
      : undefined,
).check(
  z.refine(({ type, baseURL }) => type !== "openai-compatible" || baseURL !== undefined, {
    error: 'is missing: an address such as "http://127.0.0.1:8000/v1"',
    path: ["baseURL"],
    params: { isHidden: true },
  }),
  z.refine(({ type, resume }) => resume !== true || type === "openai", {
    error:
      'is for providers of type "openai": another Holdfast is read on without it, and no other type can be',
    path: ["resume"],
  }),
);

const providerName = textThat(
  (name) => /^[a-z0-9][a-z0-9_-]{0,63}$/.test(name),
  "must be named with small letters, digits, - and _",
);

export const PROVIDERS = named(provider, providerName);

const modelId = textThat((id) => modelNameOf(id) === id, MODEL_NAME_RULE.replace(/^has/, "must have")).check(
  z.refine((id) => /^[^/\s]+\/\S+$/.test(id), { error: 'must be "provider/model"' }),
);

export const MODELS = fields({
  default: z.exactOptional(modelId),
  offered: z.exactOptional(
    list(modelId, "must be a list of models").check(
      z.minLength(1, { error: "must name at least one model, or be left out" }),
    ),
  ),
  limits: z.exactOptional(
    named(
      fields({
        contextTokensMax: z.exactOptional(whole(1, TOKENS_MAX)),
        outputTokensMax: z.exactOptional(whole(1, TOKENS_MAX)),
      }),
      modelId,
    ),
  ),
  fallbacks: z.exactOptional(named(list(modelId, "must be a list of models"), modelId)),
});

/** However it is spelt. */
export function isApiKey(name: string): boolean {
  return /^api[-_]?key$/i.test(name);
}
