/**
 * `holdfast setup`: points a client at the gateway of this machine's server, or shows how; and undoes it.
 *
 * Before the client's file is written for the first time it is copied beside itself. The copy says that the setup is ours: without it nothing is undone, and
 * with it the undo gives the file back byte for byte, or takes the settings out of one that was changed since. The copy has the mode that the file had; while
 * the API key stands in the file, it is its user's alone.
 *
 * Invariant: no other setting of the client is lost, and a crash leaves a whole file.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { API_KEY_FILE, readFileIfThere } from "../node/data-dir.ts";
import { failure, usageError } from "../node/failures.ts";
import { messageOf } from "../protocol/errors.ts";
import { commandsOn, noServer } from "./commands-on.ts";
import { askServer } from "./control-client.ts";
import { IDLE_SECONDS } from "./local-server.ts";
import { type Flags, resolveSettings } from "./settings.ts";
import { CLIENTS, type ClientSetup, type GatewaySettings, undone } from "./setup/clients.ts";
import { type Surroundings, terminal } from "./terminal.ts";

export interface SetupFlags extends Pick<Flags, "dataDir" | "config"> {
  readonly write?: boolean;
  readonly undo?: boolean;
  readonly url?: string;
  readonly model?: string;
}

/** Empty: there was no file. */
const BACKUP = ".before-holdfast";
const FILE_MODE = 0o600;

export async function setup(name: string, flags: SetupFlags, surroundings: Surroundings): Promise<void> {
  const client = CLIENTS[name];
  if (client === undefined) throw usageError(`there is no client "${name}"; choose one of ${names()}`);
  if (flags.write === true && flags.undo === true) throw usageError("give --write or --undo, not both");
  const path = client.path(surroundings);
  const { print, note } = terminal(surroundings);
  if (flags.undo === true) {
    note(undo(client, path));
    return;
  }
  const { settings, passing } = await settingsFor(flags, surroundings);
  if (flags.write !== true) {
    const obstacle = passing ?? refusal(client, path, settings);
    print(client.put(undefined, settings).trimEnd());
    note(
      obstacle === undefined
        ? `This belongs in ${path}. Write it with: ${surroundings.command} setup ${name} --write`
        : `This belongs in ${path}, but --write would refuse: ${obstacle}`,
    );
    return;
  }
  if (passing !== undefined) throw failure(passing);
  write(client, path, settings);
  note(`${client.title} uses ${settings.url} with ${settings.model}: ${path}`);
  note(`Undo it with: ${surroundings.command} setup ${name} --undo`);
}

export function names(): string {
  return Object.keys(CLIENTS).join(", ");
}

/** Why the settings cannot be put into the file; undefined: they can. */
function refusal(client: ClientSetup, path: string, settings: GatewaySettings): string | undefined {
  try {
    client.put(readFileIfThere(path), settings);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function write(client: ClientSetup, path: string, settings: GatewaySettings): void {
  const now = readFileIfThere(path);
  const text = client.put(now, settings);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Before the file, so that a crash in between leaves a copy too many and nothing lost.
  const mode = now === undefined ? FILE_MODE : modeOf(path);
  if (!existsSync(path + BACKUP)) replace(path + BACKUP, now ?? "", mode);
  replace(path, text, mode & FILE_MODE);
}

function undo(client: ClientSetup, path: string): string {
  const copy = readFileIfThere(path + BACKUP);
  if (copy === undefined) return `Nothing to undo: ${path} was not set up by this command.`;
  const how = undone(client, readFileIfThere(path), copy === "" ? undefined : copy);
  if (how.kind !== "gone" && how.text !== undefined) replace(path, how.text, modeOf(path + BACKUP));
  else rmSync(path, { force: true });
  rmSync(path + BACKUP);
  switch (how.kind) {
    case "restored":
      return how.text === undefined ? `${path} is gone again.` : `${path} is as it was before.`;
    case "edited":
      return `${path} was changed since, so only the gateway's settings were taken out.`;
    case "gone":
      return `${path} is not there any more; nothing was left to undo.`;
  }
}

/** Whole or not at all; a link stays one. */
function replace(path: string, text: string, mode: number): void {
  const target = existsSync(path) ? realpathSync(path) : path;
  const fresh = `${target}.${process.pid}.new`;
  writeFileSync(fresh, text, { mode: mode & FILE_MODE, flush: true });
  // By itself: the command's umask takes away what others had.
  chmodSync(fresh, mode);
  renameSync(fresh, target);
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

interface Offer {
  readonly settings: GatewaySettings;
  /** Why the settings will not hold for long; undefined: they will. */
  readonly passing: string | undefined;
}

async function settingsFor(flags: SetupFlags, surroundings: Surroundings): Promise<Offer> {
  const { url: named, model } = flags;
  const { dataDir, apiKey: given } = resolveSettings(flags, surroundings);
  const about = named === undefined ? await askServer(dataDir) : undefined;
  const url = named ?? about?.url;
  if (url === undefined) throw noServer(dataDir, surroundings, ", or name it by --url");
  const apiKey = given ?? readFileIfThere(join(dataDir, API_KEY_FILE))?.trim() ?? "";
  const on = commandsOn(dataDir, surroundings);
  const remedy = `make one with: ${on("keys create")}, and set HOLDFAST_API_KEY`;
  if (apiKey === "") throw failure(`there is no API key here; ${remedy}`);
  const bare = url.replace(/\/(?:v1\/?)?$/, "");
  const origin =
    given === undefined
      ? `the API key in the data directory; ${remedy}`
      : `the API key in HOLDFAST_API_KEY; set it to one of that server, or unset it to use the one in ${dataDir}`;
  const settings = { url: bare, apiKey, model: model ?? (await firstModel(bare, apiKey, origin)) };
  const passing = `a chat has started the server at ${bare}, which ends ${IDLE_SECONDS} seconds after the last chat. Start one that stays, with: ${on("serve")}`;
  return { settings, passing: about?.endsWhenIdle === true ? passing : undefined };
}

const MODELS = z.object({ data: z.array(z.object({ id: z.string() })).min(1) });

/** `origin`: of the API key, and what to do when the server refuses it. */
async function firstModel(url: string, apiKey: string, origin: string): Promise<string> {
  let isRefused = false;
  try {
    const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } });
    isRefused = response.status === 401;
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    return MODELS.parse(await response.json()).data[0]?.id ?? "";
  } catch (cause) {
    throw failure(
      isRefused ? `${url} refuses ${origin}` : `${url} does not list its models; name one with --model`,
      cause,
    );
  }
}
