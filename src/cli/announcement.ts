/**
 * What `holdfast serve` says when it is up: in plain words, everything that is needed to use it.
 */
import type { ModelInfo } from "../agent/index.ts";
import type { Durability } from "../protocol/frames.ts";
import { shellWord } from "../protocol/shell-word.ts";
import type { KeyNews } from "../node/first-key.ts";
import { isLoopback } from "../node/loopback.ts";
import type { ResolvedSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

interface Started {
  readonly url: string;
  readonly settings: ResolvedSettings;
  readonly durability: Durability;
  readonly keys: KeyNews;
  readonly models: readonly ModelInfo[];
  /** A command to paste: `on("keys list")`. */
  readonly on: (command: string) => string;
  /** Providers that do not answer. */
  readonly troubles: readonly string[];
  /** What people should know once. */
  readonly notices: readonly string[];
}

const DURABILITY: Readonly<Record<Durability, string>> = {
  fsync: "synced to this disk before it is acknowledged",
  quorum: "on more than one machine before it is acknowledged",
  none: "in memory only; everything is lost when this process ends",
};

export function announce(
  { url, settings, durability, keys, models, troubles, on, notices }: Started,
  term: Terminal,
): void {
  const { print, bold, dim } = term;
  const line = (title: string, text: string): void => print(`  ${dim(title.padEnd(12))}${text}`);
  const reach = isEveryAddress(settings.host) ? ", on every address of this machine" : "";
  print(`Holdfast is listening on ${bold(url)}${reach}`);
  line(
    "data",
    settings.store === undefined
      ? settings.dataDir
      : `in PostgreSQL; files of this node in ${settings.dataDir}`,
  );
  const disk = settings.store === undefined ? "this disk" : "PostgreSQL's disk";
  line("durability", `${durability}: ${DURABILITY[durability].replace("this disk", disk)}`);
  announceModels(models, line);
  announceKeys(keys, on, line, term.isScreen);
  for (const text of troubles) line("warning", text);
  if (troubles.length > 0) line("", TROUBLE);
  for (const text of warnings(url, settings)) line("warning", text);
  for (const text of notices) line("note", text);
  const base = `${localUrl(url, settings.host)}/v1`;
  line("OpenAI", `base URL ${bold(base)}, with the API key; for OpenCode, in opencode.json:`);
  for (const text of openCodeLines(base, models)) line("", dim(text));
  if ("path" in keys) line("", `export HOLDFAST_API_KEY=${apiKeyText(keys)}`);
  const insecure = settings.tls === undefined ? "" : "--insecure ";
  line("try", `curl ${insecure}${base}/models -H "authorization: Bearer ${apiKeyText(keys)}"`);
  line("", on("chat"));
  line(
    "stop",
    "Ctrl-C; Holdfast's clients reconnect by themselves when it runs again, OpenAI clients when they retry",
  );
}

const TROUBLE =
  "until then its models answer with this error, and no other model in their place; no restart is needed";

/** Where no provider is configured, a person must know that no AI answers. */
function announceModels(models: readonly ModelInfo[], line: (title: string, text: string) => void): void {
  const standard = models.find(({ isDefault }) => isDefault);
  const others = models.length - 1;
  const more = others > 0 ? `, and ${others} more` : "";
  line("model", `${standard?.id ?? "none is the default"}${more}`);
  if (standard?.provider !== "rehearsal") return;
  line("", "it answers by script, and no AI is behind it: set OPENAI_API_KEY, ANTHROPIC_API_KEY,");
  line("", "GOOGLE_GENERATIVE_AI_API_KEY or OLLAMA_HOST, or name providers in the config file");
}

/** To paste. */
function openCodeLines(base: string, models: readonly ModelInfo[]): readonly string[] {
  const model = models.find(({ isDefault }) => isDefault)?.id ?? models[0]?.id ?? "model";
  const options = `"options": {"baseURL": "${base}", "apiKey": "{env:HOLDFAST_API_KEY}"}`;
  return [
    `{"provider": {"holdfast": {"npm": "@ai-sdk/openai-compatible",`,
    `  ${options},`,
    `  "models": {"${model}": {}}}}, "model": "holdfast/${model}"}`,
  ];
}

/** How a shell gets the API key: from its file, or from the variable when only its owner knows it. */
function apiKeyText(keys: KeyNews): string {
  return "path" in keys ? `$(cat ${shellWord(keys.path)})` : "$HOLDFAST_API_KEY";
}

function isEveryAddress(host: string): boolean {
  return host === "0.0.0.0" || host === "::" || host === "";
}

/** A wildcard is no name to ask for. */
function localUrl(url: string, host: string): string {
  if (!isEveryAddress(host)) return url;
  const { protocol, port } = new URL(url);
  return `${protocol}//127.0.0.1:${port}`;
}

function announceKeys(
  keys: KeyNews,
  on: Started["on"],
  line: (title: string, text: string) => void,
  isScreen: boolean,
): void {
  switch (keys.kind) {
    case "made":
      line("API key", isScreen ? keys.apiKey : `in ${keys.path}`);
      line(
        "",
        `made now, for principal "default"${isScreen ? `; shown this once, and kept in ${keys.path}` : ""}`,
      );
      line("", "for commands on this machine (readable by you alone)");
      break;
    case "file":
      line("API key", `in ${keys.path}; more with: ${on("keys create")}`);
      break;
    case "environment":
      line("API key", `from HOLDFAST_API_KEY, for principal "default"; more with: ${on("keys create")}`);
      break;
    case "table":
      line("API key", `those that you made; see: ${on("keys list")}`);
      break;
    case "none":
      line("API key", `none is valid, so no client can connect; make one with: ${on("keys create")}`);
      break;
  }
}

function warnings(url: string, { host, tls, allowHosts }: ResolvedSettings): readonly string[] {
  if (isLoopback(host)) return [];
  const found: string[] = [];
  if (tls === undefined) {
    found.push(`${url} is not encrypted: API keys and stream keys cross the network in the clear.`);
    found.push("Use --tls-cert and --tls-key, or put a proxy with TLS in front.");
  }
  if (allowHosts.length === 0) {
    found.push("Requests under a name of this machine are refused; allow it with --allow-host <name>.");
  }
  return found;
}
