/**
 * The commands that look after a server's data: API keys, sessions, streams, backups, tables.
 */
import type { Command } from "commander";
import { configOption, dataCommand, jsonOption, storeOption, subcommand } from "./command-parts.ts";
import type { DoctorFlags } from "./doctor.ts";
import type { ForgetFlags } from "./forget.ts";
import type { InspectFlags } from "./inspect.ts";
import type { KeysFlags } from "./keys.ts";
import type { RotateHomeFlags } from "./rotate-home.ts";
import type { DataFlags } from "./settings.ts";
import type { StoreFlags } from "./store.ts";
import type { Surroundings } from "./terminal.ts";

export function addKeys(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  const keys = subcommand(root, "keys", "make, list and revoke API keys; rotate the home key").addHelpText(
    "after",
    `
Works while a server runs on the data directory (the server is asked) and while none does; rotate-home needs it stopped.

Examples:
  API_KEY=$(${holdfast} keys create --principal alice --label laptop)
  ${holdfast} keys create --label ci --models 'openai/gpt-*' --rate 60 --concurrency 4
  ${holdfast} keys create --principal bob --tokens-per-day 2000000
  ${holdfast} keys list
  ${holdfast} keys revoke 4f1c02ab97
  ${holdfast} keys rotate-home`,
  );
  dataCommand(keys, "create", "make an API key; it is shown this once")
    .option("--principal <name>", "who the API key stands for (default: default)")
    .option("--label <text>", "what you call it")
    .option("--models <names>", "at /v1 only these models, separated by commas; * stands for any characters")
    .option("--rate <count>", "at /v1 so many requests in a minute")
    .option("--concurrency <count>", "at /v1 so many requests at once")
    .option("--parked <count>", "at /v1 so many sessions that wait for a tool's result")
    .option("--tokens-per-day <count>", "so many tokens of models in a day of UTC")
    .action(async (flags: KeysFlags) => (await import("./keys.ts")).createKey(flags, surroundings));
  dataCommand(
    keys,
    "list",
    "list the API keys, without the API keys themselves, and what they have spent today",
  ).action(async (flags: KeysFlags) => (await import("./keys.ts")).listKeys(flags, surroundings));
  dataCommand(keys, "revoke", "revoke an API key, at once and for good")
    .argument("<id>", "its id, as `keys list` shows it")
    .action(async (id: string, flags: KeysFlags) =>
      (await import("./keys.ts")).revokeKey(id, flags, surroundings),
    );
  dataCommand(
    keys,
    "rotate-home",
    "give the gateway a new home key; sessions, conversations and answers under the old ones continue",
  )
    .option("--keep <count>", "how many older home keys stay; what the others sealed is gone (default: all)")
    .action(async (flags: RotateHomeFlags) =>
      (await import("./rotate-home.ts")).rotateHome(flags, surroundings),
    );
}

export function addForget(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "forget", "delete everything that a server keeps of a principal")
    .option("--principal <name>", "whose data is deleted")
    .option("--dry-run", "only count what would be deleted")
    .option("--keep-api-keys", "the principal's API keys stay valid")
    .addHelpText(
      "after",
      `
Streams, sessions, kept responses and conversations, blobs, retries, counts and API keys. What runs is stopped first.
Works while a server runs on the data directory (the server is asked) and while none does (then the home key is needed).

Examples:
  ${holdfast} forget --principal alice --dry-run
  ${holdfast} forget --principal alice`,
    )
    .action(async (flags: ForgetFlags) => (await import("./forget.ts")).forget(flags, surroundings));
}

export function addLink(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "link", "make a link to the page of a running server, which signs in one browser")
    .addHelpText(
      "after",
      `
The link is good once, for ten minutes, in a browser of this machine. \`keys list\` shows the API key that the browser gets.

Examples:
  ${holdfast} link
  open "$(${holdfast} link)"`,
    )
    .action(async (flags: DataFlags) => (await import("./link.ts")).link(flags, surroundings));
}

export function addSessions(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "sessions", "list what the gateway of a running server has open")
    .addHelpText(
      "after",
      `
A session is open while it answers, and while it waits for the results of tools that its client runs.

Examples:
  ${holdfast} sessions
  ${holdfast} sessions --json`,
    )
    .action(async (flags: DataFlags) => (await import("./sessions.ts")).sessions(flags, surroundings));
}

export function addInspect(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "inspect", "list the streams of a data directory, or show what one of them holds")
    .option("--stream <idempotency key>", "the stream to show; without it all are listed")
    .option("--principal <name>", "only the streams of this principal")
    .option("--home-key-file <file>", "the client's home key, from which the stream's key is derived")
    .option(
      "--stream-key <key>",
      "the stream's own key, base64url; other users may see it in the process list",
    )
    .addHelpText(
      "after",
      `
Reads only, also while a server runs, or from a copy of the directory. Content is sealed under the home key of the client
that wrote it: the gateway's, a chat's, another program's. One that is kept on this machine is found; else name it by
--home-key-file, HOLDFAST_HOME_KEY or --stream-key.

Examples:
  ${holdfast} inspect
  ${holdfast} inspect --stream 9f0c...
  ${holdfast} inspect --data-dir ./copy --json`,
    )
    .action(async (flags: InspectFlags) => (await import("./inspect.ts")).inspect(flags, surroundings));
}

export function addDoctor(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(
    root,
    "doctor",
    "check whether a data directory is whole, and salvage a damaged write-ahead log",
  )
    .option("--salvage", "keep what can be proved whole, and say what is gone; no server may run")
    .addHelpText(
      "after",
      `
Without --salvage it reads only. With it the damaged log stays beside the database under another name.
Exit codes: 0 whole, or salvaged without a loss; 1 it could not be done; 2 usage; 3 damaged; 4 salvaged, and something is gone.

Examples:
  ${holdfast} doctor
  ${holdfast} doctor --data-dir ./copy --json
  ${holdfast} doctor --salvage`,
    )
    .action(async (flags: DoctorFlags) => (await import("./doctor.ts")).doctor(flags, surroundings));
}

export function addBackup(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(
    root,
    "backup",
    "copy the database of a data directory while its server runs, and check the copy",
  )
    .argument("<directory>", "the copy's data directory; it must not be there yet")
    .addHelpText(
      "after",
      `
Example, and the way back:
  ${holdfast} backup ./backup-of-today
  ${holdfast} serve --data-dir ./backup-of-today`,
    )
    .action(async (to: string, flags: DataFlags) =>
      (await import("./backup.ts")).backup(to, flags, surroundings),
    );
}

export function addStore(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  const store = subcommand(
    root,
    "store",
    "look after the tables of a server that keeps its streams in PostgreSQL",
  ).addHelpText(
    "after",
    `
Works while servers run. The address is that of --store, HOLDFAST_STORE or the config file; a password belongs in
PGPASSWORD or a password file, since other users of the machine see flags.

Examples:
  ${holdfast} store status --store postgres://holdfast@db.example.com/holdfast
  HOLDFAST_STORE=postgres://holdfast@db.example.com/holdfast ${holdfast} store check --json`,
  );
  const one = (name: string, about: string): Command =>
    subcommand(store, name, about).addOption(storeOption()).addOption(configOption()).addOption(jsonOption());
  one("migrate", "bring the tables up to date; a server does the same when it starts").action(
    async (flags: StoreFlags) => (await import("./store.ts")).migrateStore(flags, surroundings),
  );
  one("status", "tell what the store is and how much is in it").action(async (flags: StoreFlags) =>
    (await import("./store.ts")).storeStatus(flags, surroundings),
  );
  one("check", "check that both logs of every stream are whole; exit code 3 when something is not").action(
    async (flags: StoreFlags) => (await import("./store.ts")).checkStore(flags, surroundings),
  );
}
