/**
 * Who can get in when a server starts: at least one client must, and on the open network not by accident.
 *
 * The very first start on loopback makes an API key and leaves it in the data directory, so that the
 * commands on this machine work at once. A server that the network can reach starts only when its
 * owner has decided who gets in.
 */
import { join } from "node:path";
import { shellWord } from "../protocol/shell-word.ts";
import type { ApiKeys } from "../server/api-keys.ts";
import { DEFAULT_PRINCIPAL } from "../server/api-keys.ts";
import { API_KEY_FILE, readFileIfThere, writeSecretFile } from "./data-dir.ts";
import { failure } from "./failures.ts";
import { isLoopback } from "./loopback.ts";

/** What the start-up says about API keys. */
export type KeyNews =
  | { readonly kind: "made"; readonly apiKey: string; readonly path: string }
  | { readonly kind: "file"; readonly apiKey: string; readonly path: string }
  | { readonly kind: "environment" }
  | { readonly kind: "table" }
  | { readonly kind: "none" };

/** Before the port is opened. */
export async function checkReachable(keys: ApiKeys, host: string, dataDir: string): Promise<void> {
  if (isLoopback(host) || (await keys.hasAny())) return;
  throw failure(
    `other machines can reach ${host}, and there is no API key: make one with \`holdfast keys create --data-dir ${shellWord(dataDir)}\`, ` +
      "or set HOLDFAST_API_KEY, then start again; or bind to 127.0.0.1",
  );
}

/** After the port is open, so that a start that failed leaves nothing behind. */
export async function provideKey(
  keys: ApiKeys,
  dataDir: string,
  hasEnvironmentKey: boolean,
): Promise<KeyNews> {
  const path = join(dataDir, API_KEY_FILE);
  if (hasEnvironmentKey) return { kind: "environment" };
  const isFirstStart = (await keys.list()).every(({ label }) => label === PAGE_LABEL);
  if (isFirstStart) {
    const { apiKey } = await keys.create(DEFAULT_PRINCIPAL, "made at the first start");
    writeSecretFile(path, `${apiKey}\n`);
    return { kind: "made", apiKey, path };
  }
  if (!(await keys.hasAny())) return { kind: "none" };
  const apiKey = readFileIfThere(path)?.trim() ?? "";
  return (await isValid(keys, apiKey)) ? { kind: "file", apiKey, path } : { kind: "table" };
}

const PAGE_LABEL = "a browser, signed in by a link";

/** For a browser that has shown a one-time token. It is listed and revoked like any other. */
export async function makePageKey(keys: ApiKeys): Promise<string> {
  return (await keys.create(DEFAULT_PRINCIPAL, PAGE_LABEL)).apiKey;
}

async function isValid(keys: ApiKeys, apiKey: string): Promise<boolean> {
  if (apiKey === "") return false;
  return keys.authenticate(apiKey).then(
    () => true,
    () => false,
  );
}
