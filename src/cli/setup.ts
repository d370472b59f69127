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
import { failure, systemCode, usageError } from "../node/failures.ts";
import { messageOf } from "../protocol/errors.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { given } from "../protocol/given.ts";
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
  const { settings, doubt, passing } = await settingsFor(flags, surroundings);
  if (flags.write !== true) {
    const obstacle = passing ?? refusal(client, path, settings);
    print(client.put(undefined, settings).trimEnd());
    if (doubt !== undefined) note(doubt);
    note(
      obstacle === undefined
        ? `This belongs in ${path}, and has your API key in it. Write it with: ${surroundings.command} setup ${name} --write`
        : `This belongs in ${path}, but --write would refuse: ${obstacle}`,
    );
    return;
  }
  if (passing !== undefined) throw failure(passing);
  write(client, path, settings);
  note(`${client.title} uses ${settings.url} with ${settings.model}: ${path}`);
  if (doubt !== undefined) note(doubt);
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
      return how.text === undefined ? `Removed ${path}.` : `${path} is as it was before.`;
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
  /** What could not be checked; undefined: server, API key and model are well. */
  readonly doubt: string | undefined;
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
  const { model: chosen, doubt } = await checked({ url: bare, apiKey }, origin, model);
  const settings = { url: bare, apiKey, model: chosen };
  const passing = `a chat has started the server at ${bare}, which ends ${IDLE_SECONDS} seconds after the last chat. Start one that stays, with: ${on("serve")}`;
  return { settings, doubt, passing: about?.endsWhenIdle === true ? passing : undefined };
}

const MODELS = z.object({ data: z.array(z.object({ id: z.string() })) });
/** A server that is busy answers sooner. */
const ANSWER_MS_MAX = 10_000;
const NAMED_MAX = 20;

interface Checked {
  readonly model: string;
  /** What the person should know of it; undefined: all is well. */
  readonly doubt?: string;
}

/** Asks the server for its models: it lets the API key in, and has the model. `origin`: of the API key, and what to do when it is refused. */
async function checked(
  { url, apiKey }: Pick<GatewaySettings, "url" | "apiKey">,
  origin: string,
  model: string | undefined,
): Promise<Checked> {
  const ask = (path: string): Promise<Response> => {
    const headers = { authorization: `Bearer ${apiKey}` };
    return fetch(`${url}/v1/models${path}`, { headers, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
  };
  let response: Response;
  try {
    response = await ask("");
  } catch (cause) {
    const silent = `${url} does not answer (${systemCode(cause) ?? messageOf(cause)})`;
    if (model === undefined) throw failure(`${silent}: start it, or name a model with --model`, cause);
    const doubt = `${silent}, so neither the API key nor the model was checked. Start the server, and run this again.`;
    return { model, doubt };
  }
  if (response.status === 401) throw failure(`${url} refuses ${origin}`);
  const list = response.ok ? MODELS.safeParse(parsedJson(await response.text())) : undefined;
  if (list?.success !== true)
    throw failure(`${url} answers ${response.status} without a list of models: is it a server of Holdfast?`);
  const ids = list.data.data.map(({ id }) => id);
  const first = model ?? ids[0];
  if (first === undefined) throw failure(`${url} lists no models for this API key; name one with --model`);
  if (ids.includes(first)) return { model: first };
  const found = await ask(`/${encodeURIComponent(first)}`);
  if (found.status === 404) {
    const more = ids.length > NAMED_MAX ? ", and more" : "";
    const named = ids.slice(0, NAMED_MAX).join(", ");
    throw failure(`${url} has no model "${first}" for this API key. It has ${named}${more}.`);
  }
  return { model: first, ...given({ doubt: doubtOf(first, ids, await found.text()) }) };
}

/** A short name of a listed model is that model. */
function doubtOf(model: string, ids: readonly string[], answer: string): string | undefined {
  const { id } = fieldsOf(parsedJson(answer));
  if (typeof id === "string" && ids.includes(id)) return undefined;
  return `The server does not list ${model}, and passes it on to its provider, which may not have it.`;
}
