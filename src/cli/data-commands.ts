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
These work with and without a running server; rotate-home needs it stopped.

Examples:
  API_KEY=$(${holdfast} keys create --principal alice --label laptop)
  ${holdfast} keys create --label ci --models 'openai/gpt-*' --rate 60 --concurrency 4
  ${holdfast} keys create --principal bob --tokens-per-day 2000000
  ${holdfast} keys list
  ${holdfast} keys revoke 4f1c02ab97
  ${holdfast} keys rotate-home`,
  );
  dataCommand(keys, "create", "make an API key; it is shown only once")
    .option("--principal <name>", "who the API key stands for (default: default)")
    .option("--label <text>", "what you call it")
    .option(
      "--models <names>",
      "allow only these models at /v1, separated by commas; * matches any characters",
    )
    .option("--rate <count>", "requests per minute at /v1")
    .option("--concurrency <count>", "requests at the same time at /v1")
    .option("--parked <count>", "sessions at /v1 that may wait for a tool's result")
    .option("--tokens-per-day <count>", "tokens of models per UTC day")
    .action(async (flags: KeysFlags) => (await import("./keys.ts")).createKey(flags, surroundings));
  dataCommand(keys, "list", "list the API keys (not the secrets) and what they have spent today").action(
    async (flags: KeysFlags) => (await import("./keys.ts")).listKeys(flags, surroundings),
  );
  dataCommand(keys, "revoke", "revoke an API key, immediately and for good")
    .argument("<id>", "its id, as `keys list` shows it")
    .action(async (id: string, flags: KeysFlags) =>
      (await import("./keys.ts")).revokeKey(id, flags, surroundings),
    );
  dataCommand(
    keys,
    "rotate-home",
    "give the gateway a new home key; sessions, conversations and answers under the old ones continue",
  )
    .option(
      "--keep <count>",
      "how many older home keys to keep; what the others sealed becomes unreadable (default: all)",
    )
    .action(async (flags: RotateHomeFlags) =>
      (await import("./rotate-home.ts")).rotateHome(flags, surroundings),
    );
}

export function addForget(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "forget", "delete everything that a server keeps of a principal")
    .option("--principal <name>", "whose data to delete")
    .option("--dry-run", "only count what would be deleted")
    .option("--keep-api-keys", "leave the principal's API keys valid")
    .addHelpText(
      "after",
      `
Deletes streams, sessions, kept responses and conversations, blobs, retries, counts and API keys, and stops what runs first.
Works with a running server, and without one, which needs the home key.

Examples:
  ${holdfast} forget --principal alice --dry-run
  ${holdfast} forget --principal alice`,
    )
    .action(async (flags: ForgetFlags) => (await import("./forget.ts")).forget(flags, surroundings));
}

export function addLink(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "link", "print a link that signs one browser in to the page of the running server")
    .addHelpText(
      "after",
      `
The link works once, within ten minutes, in a browser on this machine. \`keys list\` shows the API key that the browser gets.

Examples:
  ${holdfast} link
  open "$(${holdfast} link)"`,
    )
    .action(async (flags: DataFlags) => (await import("./link.ts")).link(flags, surroundings));
}

export function addSessions(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "sessions", "list what the gateway of the running server has open")
    .addHelpText(
      "after",
      `
A session is open while it answers, and while it waits for results of its client's tools.

Examples:
  ${holdfast} sessions
  ${holdfast} sessions --json`,
    )
    .action(async (flags: DataFlags) => (await import("./sessions.ts")).sessions(flags, surroundings));
}

export function addInspect(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  dataCommand(root, "inspect", "list the streams of a data directory, or show the content of one")
    .option("--stream <idempotency key>", "the stream to show (default: list all)")
    .option("--principal <name>", "only the streams of this principal")
    .option("--home-key-file <file>", "the client's home key, from which the stream's key is derived")
    .option(
      "--stream-key <key>",
      "the stream's own key, base64url; other users may see it in the process list",
    )
    .addHelpText(
      "after",
      `
Only reads: beside a running server, or from a copy of the directory. Content is sealed under the home key of the client
that wrote it: the gateway, a chat, another program. The command finds home keys on this machine; name others with
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
    .option("--salvage", "keep what is provably whole, and say what is gone; stop the server first")
    .addHelpText(
      "after",
      `
Without --salvage the command only reads. With it, the damaged log stays beside the database under another name.
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
    .argument("<directory>", "the copy's data directory; it must not exist yet")
    .addHelpText(
      "after",
      `
Back up, and restore:
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
    "migrate, describe or check the PostgreSQL of a server",
  ).addHelpText(
    "after",
    `
Works while servers run. The address comes from --store, HOLDFAST_STORE or the config file. Put a password into
PGPASSWORD or a password file, because other users of the machine can see flags.

Examples:
  ${holdfast} store status --store postgres://holdfast@db.example.com/holdfast
  HOLDFAST_STORE=postgres://holdfast@db.example.com/holdfast ${holdfast} store check --json`,
  );
  const one = (name: string, about: string): Command =>
    subcommand(store, name, about).addOption(storeOption()).addOption(configOption()).addOption(jsonOption());
  one("migrate", "bring the tables up to date; a server does the same when it starts").action(
    async (flags: StoreFlags) => (await import("./store.ts")).migrateStore(flags, surroundings),
  );
  one("status", "say what the store is and how much is in it").action(async (flags: StoreFlags) =>
    (await import("./store.ts")).storeStatus(flags, surroundings),
  );
  one("check", "check that both logs of every stream are whole; exit code 3 if one is not").action(
    async (flags: StoreFlags) => (await import("./store.ts")).checkStore(flags, surroundings),
  );
}
