/**
 * Who serves models: what the configuration names, and what the environment variables that people already have stand for.
 *
 * An API key is read from the environment when a call needs it, and is nowhere else.
 */
import { ModelFailure } from "../model.ts";
import { type Dialect, KEY_VARIABLES, type ProviderType } from "./dialect.ts";
import type { PrefillRule } from "./prefill.ts";
import { COOLDOWN, type Cooldown } from "./routing/health.ts";

export type Environment = Readonly<Record<string, string | undefined>>;
export type Fetch = typeof globalThis.fetch;

/** One of `providers` in the configuration. */
export interface ProviderConfig {
  readonly type: ProviderType;
  /** Required of an openai-compatible one, e.g. http://127.0.0.1:11434/v1. */
  readonly baseURL?: string;
  /** The name of the environment variable that holds the API key; several are used in turn. */
  readonly apiKeyEnv?: string | readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  /** How long the provider may say nothing of the answer, whatever it does. */
  readonly silenceMs?: number;
  /** The same between two pieces of text or of a tool's arguments. */
  readonly writingSilenceMs?: number;
  /** What may be done about an answer that broke behind its first content. */
  readonly continue?: ContinueRule;
  /** The form in which a model gets the beginning of its answer, to write on behind it. */
  readonly prefill?: PrefillRule;
  /** Of type openai: whether it may store answers (`background`), so that they are read on behind a break. */
  readonly resume?: boolean;
  /** After so many failures in a row others are asked first, for so long. */
  readonly cooldown?: { readonly failures?: number; readonly seconds?: number };
}

/**
 * `off`: nothing. `restart`: its step begins anew, where nothing shown is contradicted. `exact`: that, and every way that continues the answer
 * and is proved to.
 */
export const CONTINUE_RULES = ["off", "restart", "exact"] as const;
type ContinueRule = (typeof CONTINUE_RULES)[number];

export interface HttpProvider {
  readonly dialect: Dialect;
  readonly baseURL: string;
  /** The environment variables that hold its API keys; none where it needs none. */
  readonly keyVariables: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly silenceMs?: number | undefined;
  readonly writingSilenceMs?: number | undefined;
  readonly continues?: ContinueRule | undefined;
  readonly prefill?: PrefillRule | undefined;
  readonly resume?: boolean | undefined;
  readonly cooldown?: Cooldown | undefined;
}

export type Provider = HttpProvider | "rehearsal";

/** Given whole, always: left to themselves, the SDKs would look into this process's environment. */
const BASE_URLS: Readonly<Record<Dialect, string>> = {
  openai: "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com/v1",
  google: "https://generativelanguage.googleapis.com/v1beta",
  "openai-compatible": "",
};

/** Configured ones first, in their order; a configured name wins over what the environment would make of it. */
export function providersOf(
  configured: Readonly<Record<string, ProviderConfig>>,
  environment: Environment,
): ReadonlyMap<string, Provider> {
  const named = Object.entries(configured).map(
    ([name, config]) => [name, configuredProvider(config)] as const,
  );
  const found = environmentProviders(environment).filter(([name]) => !Object.hasOwn(configured, name));
  const rehearsal = Object.hasOwn(configured, "rehearsal") ? [] : ([["rehearsal", "rehearsal"]] as const);
  return new Map([...named, ...found, ...rehearsal]);
}

/** `provider/model` as its two names. */
export function split(id: string): readonly [string, string] {
  const at = id.indexOf("/");
  return at === -1 ? [id, ""] : [id.slice(0, at), id.slice(at + 1)];
}

function configuredProvider(config: ProviderConfig): Provider {
  if (config.type === "rehearsal") return "rehearsal";
  return {
    dialect: config.type,
    baseURL: config.baseURL ?? BASE_URLS[config.type],
    keyVariables: variablesOf(config.apiKeyEnv ?? KEY_VARIABLES[config.type]),
    headers: config.headers ?? {},
    silenceMs: config.silenceMs,
    writingSilenceMs: config.writingSilenceMs,
    continues: config.continue,
    prefill: config.prefill,
    resume: config.resume === true && config.continue !== "off" && config.continue !== "restart",
    cooldown: cooldownOf(config.cooldown),
  };
}

function variablesOf(named: string | readonly string[] | undefined): readonly string[] {
  if (named === undefined) return [];
  return typeof named === "string" ? [named] : [...new Set(named)];
}

function cooldownOf({ failures, seconds }: NonNullable<ProviderConfig["cooldown"]> = {}): Cooldown {
  return {
    failures: failures ?? COOLDOWN.failures,
    ms: seconds === undefined ? COOLDOWN.ms : seconds * 1_000,
  };
}

function environmentProviders(environment: Environment): readonly (readonly [string, HttpProvider])[] {
  const isSet = (name: string | undefined): boolean => name !== undefined && (environment[name] ?? "") !== "";
  const provider = (dialect: Dialect, baseURL: string, variable: string | undefined): HttpProvider => ({
    dialect,
    baseURL,
    keyVariables: variablesOf(variable),
    headers: {},
  });
  const found: (readonly [string, HttpProvider])[] = [];
  for (const dialect of ["anthropic", "openai", "google"] as const) {
    const variable = KEY_VARIABLES[dialect];
    if (!isSet(variable)) continue;
    const elsewhere = environment[`${dialect.toUpperCase()}_BASE_URL`] ?? "";
    // Who points OPENAI_BASE_URL elsewhere has a server that speaks chat completions, and an API key for it alone.
    const spoken = dialect === "openai" && elsewhere !== "" ? "openai-compatible" : dialect;
    found.push([dialect, provider(spoken, elsewhere === "" ? BASE_URLS[dialect] : elsewhere, variable)]);
  }
  const ollama = environment["OLLAMA_HOST"] ?? "";
  if (ollama !== "") found.push(["ollama", provider("openai-compatible", ollamaURL(ollama), undefined)]);
  return found;
}

const OLLAMA_PORT = "11434";

/** `OLLAMA_HOST` is made for servers: it may be `0.0.0.0`, a bare host, a host and port, or an address. */
export function ollamaURL(host: string): string {
  const text = host.trim().replace(/\/+$/, "");
  const hasScheme = /^https?:\/\//i.test(text);
  if (!URL.canParse(hasScheme ? text : `http://${text}`)) return `http://127.0.0.1:${OLLAMA_PORT}/v1`;
  const url = new URL(hasScheme ? text : `http://${text}`);
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") url.hostname = "127.0.0.1";
  if (url.port === "" && !hasScheme) url.port = OLLAMA_PORT;
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1`;
}

/** The variables that hold an API key. One without any is asked with its first one, so that a message can name it. */
export function keysOf({ keyVariables }: HttpProvider, environment: Environment): readonly string[] {
  const held = keyVariables.filter((variable) => keyIn(environment, variable) !== "");
  return held.length > 0 ? held : [keyVariables[0] ?? ""];
}

/** The API key that a variable holds, or undefined where none is needed. Throws what to do when it is missing. */
export function apiKeyOf(
  name: string,
  provider: HttpProvider,
  environment: Environment,
  variable: string | undefined = keysOf(provider, environment)[0],
): string | undefined {
  const { keyVariables } = provider;
  if (keyVariables.length === 0 || variable === undefined) return undefined;
  const apiKey = keyIn(environment, variable);
  if (apiKey !== "") return apiKey;
  throw new ModelFailure(
    "unauthenticated",
    `${name}: there is no API key. Set the environment variable ${keyVariables.join(" or ")} and start again.`,
  );
}

/** As it is sent: a file or a script may have left white space around it. */
function keyIn(environment: Environment, variable: string): string {
  return (environment[variable] ?? "").trim();
}

/** A shorter secret looks like a common word or a number. */
const SECRET_CHARS_MIN = 6;

/** What is sent to the provider and must be in no message: the API keys, and the configured headers. */
export function secretsOf(
  { keyVariables, headers }: HttpProvider,
  environment: Environment,
): readonly string[] {
  const apiKeys = keyVariables.map((variable) => keyIn(environment, variable));
  return [...apiKeys, ...Object.values(headers)].filter((secret) => secret.length >= SECRET_CHARS_MIN);
}
