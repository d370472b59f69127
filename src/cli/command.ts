/**
 * The `holdfast` command: hands the process over to the program and turns what it throws into a message and an exit code.
 */
import process from "node:process";
import { findHomeDirectory } from "../client-node/scope.ts";
import { usageError } from "../node/failures.ts";
import { describeFailure } from "./failures.ts";
import { installation, ownCommand } from "./own-command.ts";
import { program } from "./program.ts";

// What a command writes is its user's alone, also in a directory that others may read.
process.umask(0o077);

// A reader that has seen enough (`holdfast inspect | head`) is no failure.
process.stdout.on("error", (error: Error) => {
  if ("code" in error && error.code === "EPIPE") process.exit(0);
  throw error;
});

// The reader of the log may be gone, or the disk that it lies on may be full; a server runs on, and above all stops in order.
process.stderr.on("error", () => undefined);

const command = ownCommand(installation(process.cwd(), process.env));
const surroundings = {
  command,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  /** Asked for only when no directory was named. */
  get home(): string {
    const home = findHomeDirectory();
    if (home === undefined) throw usageError("this user has no home directory: set HOME, or give --data-dir");
    return home;
  },
  platform: process.platform,
  now: () => Date.now(),
};

try {
  await program(surroundings).parseAsync();
} catch (error) {
  const { exitCode, text } = describeFailure(error, {
    isDebug: process.env["HOLDFAST_DEBUG"] === "1",
    command,
  });
  if (text !== undefined) process.stderr.write(`${text}\n`);
  process.exitCode = exitCode;
}
