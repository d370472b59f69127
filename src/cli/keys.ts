/**
 * `holdfast keys`: makes, lists and revokes API keys.
 *
 * While a server runs on the data directory, it is asked to do it, so that a revocation counts at
 * once and no other process writes. Otherwise the command opens the database itself; its lock keeps a
 * server from starting for that moment. Keys of a server that has its streams in PostgreSQL (`HOLDFAST_STORE`, or `store` in the config file) are there.
 */
import { type ApiKeyLimits, COUNT_MAX, isForGatewayOnly, TOKENS_MAX } from "../server/api-key-limits.ts";
import type { ApiKeyInfo } from "../server/api-key-record.ts";
import { ApiKeys } from "../server/api-keys.ts";
import { Spending } from "../server/spending.ts";
import * as z from "../protocol/rules.ts";
import { asFlag, checked, textThat, wholeText } from "../protocol/checked.ts";
import { openSqlite } from "../store/index.ts";
import { commandsOn } from "./commands-on.ts";
import { reachServer } from "./control-client.ts";
import { makeDataDir } from "../node/data-dir.ts";
import { databasePath, existingDatabase } from "./database-path.ts";
import { failure } from "../node/failures.ts";
import { given } from "../protocol/given.ts";
import { keyAdmin, type KeyAdmin } from "../node/key-admin.ts";
import type { ServerStore } from "../node/open-store.ts";
import { type DataFlags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { minute, type Surroundings, table, terminal, visible } from "./terminal.ts";

export interface KeysFlags extends DataFlags {
  readonly principal?: string;
  readonly label?: string;
  readonly models?: string;
  readonly rate?: string;
  readonly concurrency?: string;
  readonly parked?: string;
  readonly tokensPerDay?: string;
}

export async function createKey(flags: KeysFlags, surroundings: Surroundings): Promise<void> {
  const { principal = "default", label = "" } = flags;
  const limits = limitsOf(flags);
  const settings = resolveSettings(flags, surroundings);
  const { dataDir } = settings;
  makeDataDir(dataDir, (notice) => terminal(surroundings).note(notice));
  const created = await withKeys(settings, surroundings, (keys) => keys.create(principal, label, limits));
  const { print, note } = terminal(surroundings);
  if (flags.json === true) return print(JSON.stringify({ ...jsonOf(created), apiKey: created.apiKey }));
  // The key alone on standard output: API_KEY=$(holdfast keys create)
  print(created.apiKey);
  note(
    `API key ${created.id} for principal "${visible(principal)}". It is shown this once; only its hash is stored.`,
  );
  if (created.limits !== undefined) {
    const where = isForGatewayOnly(created.limits) ? "It is for /v1 alone, within" : "It has";
    note(`${where} these limits: ${limitsText(created.limits)}.`);
  }
  note(`Revoke it with: ${commandsOn(dataDir, surroundings)(`keys revoke ${created.id}`)}`);
}

export async function listKeys(flags: KeysFlags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const { dataDir } = settings;
  if (settings.store === undefined) existingDatabase(dataDir);
  const keys = await withKeys(settings, surroundings, (admin) => admin.list());
  const term = terminal(surroundings);
  if (flags.json === true) return term.print(JSON.stringify(keys.map(jsonOf)));
  if (keys.length === 0)
    return term.note(
      `There are no API keys. Make one with: ${commandsOn(dataDir, surroundings)("keys create")}`,
    );
  // Most have none: a column for nothing would only make the lines longer.
  const hasLimits = keys.some(({ limits }) => limits !== undefined);
  const head = [
    "ID",
    "PRINCIPAL",
    "LABEL",
    "CREATED",
    "LAST USED",
    "STATE",
    ...(hasLimits ? ["LIMITS"] : []),
  ];
  const hasSpent = keys.some(({ tokensToday }) => tokensToday !== undefined);
  if (hasSpent) head.push("TOKENS TODAY");
  const rows = keys.map((key) =>
    rowOf(key).concat(
      hasLimits ? [limitsText(key.limits)] : [],
      hasSpent ? [String(key.tokensToday ?? 0)] : [],
    ),
  );
  for (const line of table(head, rows, term)) term.print(line);
}

export async function revokeKey(id: string, flags: KeysFlags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const { dataDir } = settings;
  if (settings.store === undefined) existingDatabase(dataDir);
  const publicId = idOf(id);
  const isRevoked = await withKeys(settings, surroundings, (keys) => keys.revoke(publicId));
  if (!isRevoked) {
    const list = commandsOn(dataDir, surroundings)("keys list");
    throw failure(`there is no API key ${visible(publicId)}; see: ${list}`);
  }
  const { print } = terminal(surroundings);
  print(
    flags.json === true ? JSON.stringify({ id: publicId, revoked: true }) : `API key ${publicId} is revoked.`,
  );
}

/** Who pastes a whole API key means its id, and must not find the secret in an error message. */
function idOf(text: string): string {
  return /^hf_(?<id>[0-9a-f]{10})_/.exec(text)?.groups?.["id"] ?? text;
}

/** The tables of a server that does not run. */
export async function openTables(
  { dataDir, store: address }: Pick<ResolvedSettings, "dataDir" | "store">,
  { now, env }: Surroundings,
): Promise<Pick<ServerStore, "tables" | "close">> {
  if (address === undefined) return openSqlite(databasePath(dataDir), { now });
  return (await import("../store/postgres/index.ts")).openPostgresStore(address, { variables: env });
}

async function withKeys<Result>(
  settings: Pick<ResolvedSettings, "dataDir" | "store">,
  surroundings: Surroundings,
  act: (keys: KeyAdmin) => Promise<Result>,
): Promise<Result> {
  const server = await reachServer(settings.dataDir);
  if (server !== undefined) return act(server);
  const { now } = surroundings;
  const store = await openTables(settings, surroundings);
  try {
    const { tables } = store;
    const spending = await Spending.open({ tables, now, retentionMs: 0, isShared: true });
    return await act(keyAdmin(new ApiKeys({ tables, now }), spending));
  } finally {
    await store.close();
  }
}

function rowOf({ id, principal, label, createdMs, lastUsedMs, revokedMs }: ApiKeyInfo): readonly string[] {
  const used = lastUsedMs === undefined ? "never" : minute(lastUsedMs);
  const state = revokedMs === undefined ? "valid" : `revoked ${minute(revokedMs)}`;
  return [id, visible(principal), visible(label), minute(createdMs), used, state];
}

const LIMIT_FLAGS = z.object({
  models: z.optional(
    textThat(
      (said) => patternsIn(said).every((pattern) => pattern !== ""),
      "must be a list of names, separated by commas; * stands for any characters",
    ),
  ),
  rate: z.optional(wholeText(1, COUNT_MAX)),
  concurrency: z.optional(wholeText(1, COUNT_MAX)),
  parked: z.optional(wholeText(0, COUNT_MAX)),
  tokensPerDay: z.optional(wholeText(1, TOKENS_MAX)),
});

function limitsOf(flags: KeysFlags): ApiKeyLimits {
  const { models, rate, concurrency, parked, tokensPerDay } = checked(LIMIT_FLAGS, flags, asFlag);
  return given({
    models: models === undefined ? undefined : patternsIn(models),
    ratePerMinute: rate,
    concurrency,
    parked,
    tokensPerDay,
  });
}

function patternsIn(models: string): readonly string[] {
  return models.split(",").map((pattern) => pattern.trim());
}

function limitsText(limits: ApiKeyLimits | undefined): string {
  if (limits === undefined) return "none";
  const { models, ratePerMinute, concurrency, parked, tokensPerDay } = limits;
  return [
    ...(models === undefined ? [] : [`models ${models.map(visible).join(",")}`]),
    ...(ratePerMinute === undefined ? [] : [`${ratePerMinute}/min`]),
    ...(concurrency === undefined ? [] : [`${concurrency} at once`]),
    ...(parked === undefined ? [] : [`${parked} parked`]),
    ...(tokensPerDay === undefined ? [] : [`${tokensPerDay} tokens/day`]),
  ].join("; ");
}

function jsonOf(key: ApiKeyInfo): object {
  const { id, principal, label, createdMs, lastUsedMs, revokedMs, limits, tokensToday = 0 } = key;
  const time = (timeMs: number | undefined): string | null =>
    timeMs === undefined ? null : new Date(timeMs).toISOString();
  return {
    id,
    principal,
    label,
    created: time(createdMs),
    lastUsed: time(lastUsedMs),
    revoked: time(revokedMs),
    limits: limits ?? null,
    tokensToday,
  };
}
