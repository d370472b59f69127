/**
 * Claude Code: variables in its `settings.json`. Its base URL has no /v1, and its small model is the same one, since a gateway may have no other.
 */
import { join } from "node:path";
import { failure } from "../../node/failures.ts";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { ClientSetup, GatewaySettings } from "./clients.ts";

const [URL, KEY, MODEL, SMALL] = [
  "ANTHROPIC_BASE_URL",
  "ANTHROPIC_AUTH_TOKEN",
  "ANTHROPIC_MODEL",
  "ANTHROPIC_DEFAULT_HAIKU_MODEL",
] as const;
const NAMES: ReadonlySet<string> = new Set([URL, KEY, MODEL, SMALL]);

export const CLAUDE: ClientSetup = {
  title: "Claude Code",
  path: ({ env, home }) => join(env["CLAUDE_CONFIG_DIR"] ?? join(home, ".claude"), "settings.json"),
  put: (before, settings) => {
    const all = objectOf(before ?? "{}");
    return written({ ...all, env: { ...envOf(all), ...variables(settings) } }, before);
  },
  found: (text) => {
    const { [URL]: url, [KEY]: apiKey, [MODEL]: model } = envOf(objectOf(text));
    const isWhole = typeof url === "string" && typeof apiKey === "string" && typeof model === "string";
    return isWhole ? { url, apiKey, model } : undefined;
  },
  taken: (text, before) => {
    const { env: _, ...rest } = objectOf(text);
    const old = before === undefined ? {} : envOf(objectOf(before));
    const kept = Object.entries(envOf(objectOf(text))).filter(([name]) => !NAMES.has(name));
    const again = Object.entries(old).filter(([name]) => NAMES.has(name));
    const env = Object.fromEntries([...kept, ...again]);
    return written(Object.keys(env).length === 0 ? rest : { ...rest, env }, text);
  },
};

function variables({ url, apiKey, model }: GatewaySettings): JsonObject {
  return { [URL]: url, [KEY]: apiKey, [MODEL]: model, [SMALL]: model };
}

function envOf({ env }: JsonObject): JsonObject {
  return isJsonObject(env) ? env : {};
}

function objectOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // Said below, without what is in it.
  }
  throw failure(
    "Claude Code's settings.json is not a JSON object; mend it first, or put the settings in by hand",
  );
}

/** Indented as the file was. */
function written(value: JsonObject, like: string | undefined): string {
  const indent = /^(?<indent>[ \t]+)\S/m.exec(like ?? "")?.groups?.["indent"] ?? "  ";
  return `${JSON.stringify(value, undefined, indent)}\n`;
}
