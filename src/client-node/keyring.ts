/**
 * The operating system's keyring: Keychain, Credential Manager, Secret Service.
 *
 * A child process asks it. A keyring whose service does not answer blocks the thread that asks
 * and cannot be interrupted; a child can be ended. The secret goes through pipes, never
 * through arguments or the environment, which others may see. On Linux only the Secret Service
 * counts: the kernel's keyring forgets everything at the next start of the machine.
 */
import { spawn } from "node:child_process";
import { extname, join } from "node:path";
import * as z from "zod/mini";
import { parsedJson } from "../protocol/fields.ts";

/** Where home keys can be kept by name. */
export interface Keyring {
  /** `none` when it has no such entry. */
  read(name: string): Promise<KeyringAnswer>;
  write(name: string, secret: string): Promise<KeyringAnswer>;
}

const ANSWER = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("found"), secret: z.string() }),
  z.object({ kind: z.literal("none") }),
  z.object({ kind: z.literal("written") }),
  /** There is no keyring, or it does not answer. Whether a write happened is then unknown. */
  z.object({ kind: z.literal("unavailable"), reason: z.string() }),
]);
export type KeyringAnswer = Readonly<z.output<typeof ANSWER>>;

/** What the child gets; one line of JSON. */
interface KeyringRequest {
  readonly name: string;
  /** To be written; absent: the entry is to be read. */
  readonly secret?: string;
}

/** Long enough for a keyring that has to be started, too short for people to give up. */
const TIMEOUT_MS = 5_000;

export function systemKeyring(timeoutMs = TIMEOUT_MS): Keyring {
  return {
    read: (name) => ask({ name }, timeoutMs),
    write: (name, secret) => ask({ name, secret }, timeoutMs),
  };
}

/** As source and as built, the child's file lies beside this one. */
const CHILD = join(import.meta.dirname, `keyring-process${extname(import.meta.filename)}`);

async function ask(request: KeyringRequest, timeoutMs: number): Promise<KeyringAnswer> {
  const { promise, resolve } = Promise.withResolvers<KeyringAnswer>();
  const child = spawn(process.execPath, [CHILD], { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
  let answer = "";
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  child.on("error", (error) => resolve({ kind: "unavailable", reason: error.message }));
  child.on("close", (_code, signal) => {
    const reason = signal === null ? "it failed" : `it did not answer within ${timeoutMs} ms`;
    resolve(z.safeParse(ANSWER, parsedJson(answer)).data ?? { kind: "unavailable", reason });
  });
  child.stdout.setEncoding("utf8").on("data", (text: string) => (answer += text));
  // A child that is gone already shows in `close`.
  child.stdin.on("error", () => undefined);
  child.stdin.end(JSON.stringify(request));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
