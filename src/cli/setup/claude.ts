/**
 * Claude Code: variables in its `settings.json`. Its base URL has no /v1, and its small model is the same one, since a gateway may have no other.
 */
import { join } from "node:path";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { ClientSetup, GatewaySettings } from "./clients.ts";
import { jsonObjectOf, writtenLike } from "./json-settings.ts";

const [URL, KEY, MODEL, SMALL] = [
  "ANTHROPIC_BASE_URL",
  "ANTHROPIC_AUTH_TOKEN",
  "ANTHROPIC_MODEL",
  "ANTHROPIC_DEFAULT_HAIKU_MODEL",
] as const;
const FILE = "Claude Code's settings.json";
const NAMES: ReadonlySet<string> = new Set([URL, KEY, MODEL, SMALL]);

export const CLAUDE: ClientSetup = {
  title: "Claude Code",
  path: ({ env, home }) => join(env["CLAUDE_CONFIG_DIR"] ?? join(home, ".claude"), "settings.json"),
  put: (before, settings) => {
    const all = jsonObjectOf(before ?? "{}", FILE);
    return writtenLike({ ...all, env: { ...envOf(all), ...variables(settings) } }, before);
  },
  found: (text) => {
    const { [URL]: url, [KEY]: apiKey, [MODEL]: model } = envOf(jsonObjectOf(text, FILE));
    const isWhole = typeof url === "string" && typeof apiKey === "string" && typeof model === "string";
    return isWhole ? { url, apiKey, model } : undefined;
  },
  taken: (text, before) => {
    const { env: _, ...rest } = jsonObjectOf(text, FILE);
    const old = before === undefined ? {} : envOf(jsonObjectOf(before, FILE));
    const kept = Object.entries(envOf(jsonObjectOf(text, FILE))).filter(([name]) => !NAMES.has(name));
    const again = Object.entries(old).filter(([name]) => NAMES.has(name));
    const env = Object.fromEntries([...kept, ...again]);
    return writtenLike(Object.keys(env).length === 0 ? rest : { ...rest, env }, text);
  },
};

function variables({ url, apiKey, model }: GatewaySettings): JsonObject {
  return { [URL]: url, [KEY]: apiKey, [MODEL]: model, [SMALL]: model };
}

function envOf({ env }: JsonObject): JsonObject {
  return isJsonObject(env) ? env : {};
}
