/**
 * Where the show takes place: a directory of its own with a data directory, a workspace and a home key, and an environment
 * in which nothing of the user's gets in the way.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KEY_BYTES } from "../../sealing/index.ts";
import { allProcesses, hasVariable, signalProcess } from "../../tools/processes.ts";
import { writeSecretFile } from "../../node/data-dir.ts";
import type { Surroundings } from "../terminal.ts";
import { LETTER_BEFORE, LETTER_FILE } from "./play.ts";

/** Marks every command of the show, so that none outlives it. */
export const MARK_VARIABLE = "HOLDFAST_DEMO";

export type Stage = Readonly<ReturnType<typeof setStage>>;

export function setStage({ env }: Pick<Surroundings, "env">) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  const homeKey = new Uint8Array(randomBytes(KEY_BYTES));
  const homeKeyFile = join(directory, "home-key");
  const homeKeyText = Buffer.from(homeKey).toString("base64url");
  writeSecretFile(homeKeyFile, `${homeKeyText}\n`);
  const workspace = join(directory, "workspace");
  mkdirSync(workspace);
  writeFileSync(join(workspace, LETTER_FILE), LETTER_BEFORE);
  const mark = randomBytes(8).toString("hex");
  return {
    directory,
    dataDir: join(directory, "server"),
    workspace,
    homeKey,
    homeKeyFile,
    /** In the environment of every command that a tool runs. */
    mark,
    // Nothing of the user's but how a PostgreSQL is reached: no provider is asked, no setting gets in the way.
    env: {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => /^PG[A-Z]+$/.test(name))),
      PATH: env["PATH"],
      HOME: directory,
      TMPDIR: env["TMPDIR"],
      HOLDFAST_API_KEY: randomBytes(KEY_BYTES).toString("base64url"),
      HOLDFAST_HOME_KEY: homeKeyText,
      [MARK_VARIABLE]: mark,
      NODE_COMPILE_CACHE: env["NODE_COMPILE_CACHE"] ?? join(directory, "compiled"),
    },
  };
}

/** A command outlives its client; of those that were cut off at the end of the show none may stay. */
export function killCommands(mark: string): void {
  for (const { pid } of allProcesses()) {
    if (pid !== process.pid && hasVariable(pid, `${MARK_VARIABLE}=${mark}`)) signalProcess(pid, "SIGKILL");
  }
}
