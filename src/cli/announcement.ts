/**
 * What `holdfast serve` says when it is up: six lines. What needs attention besides is in the log.
 */
import { join } from "node:path";
import type { ModelInfo } from "../agent/index.ts";
import { shellWord } from "../protocol/shell-word.ts";
import type { KeyNews } from "../node/first-key.ts";
import { isEveryAddress, isLoopback } from "../node/loopback.ts";
import type { ResolvedSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

interface Started {
  readonly url: string;
  readonly settings: ResolvedSettings;
  readonly keys: KeyNews;
  /** What signs in the browser that opens the page by it first; empty where there is no such thing. */
  readonly signInLink: string;
  readonly models: readonly ModelInfo[];
  /** A command to paste: `on("keys list")`. */
  readonly on: (command: string) => string;
  /** Providers that do not answer. */
  readonly troubles: readonly string[];
}

/** The first page of the manual, which the package has with it. */
const DOCS = join(import.meta.dirname, "../../docs/START.md");

export function announce(
  { url, settings, keys, signInLink, models, troubles, on }: Started,
  { print, bold, dim }: Terminal,
): void {
  const line = (title: string, text: string): void => print(`  ${dim(title.padEnd(9))}${text}`);
  const reach = isEveryAddress(settings.host) ? ", on every address of this machine" : "";
  const place = settings.store === undefined ? "" : "PostgreSQL, files of this node in ";
  const local = localUrl(url, settings.host);
  print(
    `Holdfast is listening on ${bold(url)}${reach}, process ${process.pid}, data in ${place}${settings.dataDir}`,
  );
  line("model", [modelText(models), ...troubles.map((text) => `${text} ${TROUBLE}`)].join(". "));
  line("API key", keyText(keys, on));
  line("try", tryText(local, models, settings.tls !== undefined));
  line("page", `${local}/${signInLink}`);
  line("docs", DOCS);
}

const TROUBLE = "Its models answer with this error until it does; you need not restart.";

/** Where no provider is configured, a person must know that no AI answers. */
function modelText(models: readonly ModelInfo[]): string {
  const standard = models.find(({ isDefault }) => isDefault);
  const more = models.length > 1 ? `, and ${models.length - 1} more` : "";
  const text = `${standard?.id ?? "none is the default"}${more}`;
  if (standard?.provider !== "rehearsal") return text;
  return `${text}: a script, no AI. For a real model set OPENAI_API_KEY, or another variable of docs/MODELS.md`;
}

/** How a shell gets the API key. No key is printed: what is printed may be kept (E4). */
function keyText(keys: KeyNews, on: Started["on"]): string {
  switch (keys.kind) {
    case "made":
    case "file":
      return `export HOLDFAST_API_KEY="$(cat ${shellWord(keys.path)})"`;
    case "environment":
      return `the one in HOLDFAST_API_KEY; make more with: ${on("keys create")}`;
    case "table":
      return `export one that you made as HOLDFAST_API_KEY; see: ${on("keys list")}`;
    case "none":
      return `there is no valid one, so no client can connect. Make one with: ${on("keys create")}`;
  }
}

/** A request that is answered as it stands. */
function tryText(url: string, models: readonly ModelInfo[], hasTls: boolean): string {
  const model = models.find(({ isDefault }) => isDefault)?.id ?? models[0]?.id ?? "model";
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "count to 3" }] });
  const headers = `-H "authorization: Bearer $HOLDFAST_API_KEY" -H "content-type: application/json"`;
  return `curl ${hasTls ? "--insecure " : ""}${url}/v1/chat/completions ${headers} -d ${shellWord(body)}`;
}

/** A wildcard is no name to ask for. */
export function localUrl(url: string, host: string): string {
  if (!isEveryAddress(host)) return url;
  const { protocol, port } = new URL(url);
  return `${protocol}//127.0.0.1:${port}`;
}

/** What is wrong with an address that other machines can reach. */
export function warnings(url: string, { host, tls, allowHosts }: ResolvedSettings): readonly string[] {
  if (isLoopback(host)) return [];
  const found: string[] = [];
  if (tls === undefined) {
    found.push(
      `${url} is not encrypted: API keys and stream keys cross the network as plain text. Use --tls-cert and --tls-key, or put a proxy with TLS in front.`,
    );
  }
  if (allowHosts.length === 0) {
    found.push(
      "The server refuses requests for this machine's host name; allow it with --allow-host <name>.",
    );
  }
  return found;
}
