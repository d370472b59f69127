/**
 * OpenCode: a provider in its `opencode.json`, with one model, which becomes the model of its choice.
 */
import { join } from "node:path";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { ClientSetup, GatewaySettings } from "./clients.ts";
import { jsonObjectOf, writtenLike } from "./json-settings.ts";

const OURS = "holdfast";
const FILE = "OpenCode's opencode.json";

export const OPENCODE: ClientSetup = {
  title: "OpenCode",
  path: ({ env, home }) => join(env["XDG_CONFIG_HOME"] ?? join(home, ".config"), "opencode", "opencode.json"),
  put: (before, settings) => {
    const all = jsonObjectOf(before ?? "{}", FILE);
    const provider = { ...objectIn(all, "provider"), [OURS]: providerOf(settings) };
    return writtenLike({ ...all, provider, model: `${OURS}/${settings.model}` }, before);
  },
  found: (text) => {
    const { model } = jsonObjectOf(text, FILE);
    const ours = objectIn(objectIn(jsonObjectOf(text, FILE), "provider"), OURS);
    const { baseURL, apiKey } = objectIn(ours, "options");
    const isWhole = typeof model === "string" && typeof baseURL === "string" && typeof apiKey === "string";
    if (!isWhole || !model.startsWith(`${OURS}/`)) return undefined;
    return { url: baseURL.replace(/\/v1$/, ""), apiKey, model: model.slice(OURS.length + 1) };
  },
  taken: (text, before) => {
    const { provider, model, ...rest } = jsonObjectOf(text, FILE);
    const old = before === undefined ? {} : jsonObjectOf(before, FILE);
    const { [OURS]: _, ...others } = isJsonObject(provider) ? provider : {};
    const isOurs = typeof model === "string" && model.startsWith(`${OURS}/`);
    const chosen = isOurs ? old["model"] : model;
    return writtenLike(
      {
        ...rest,
        ...(Object.keys(others).length === 0 ? {} : { provider: others }),
        ...(chosen === undefined ? {} : { model: chosen }),
      },
      text,
    );
  },
};

function providerOf({ url, apiKey, model }: GatewaySettings): JsonObject {
  return {
    npm: "@ai-sdk/openai-compatible",
    name: "Holdfast",
    options: { baseURL: `${url}/v1`, apiKey },
    models: { [model]: {} },
  };
}

function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}
