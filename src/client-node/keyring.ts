/**
 * The operating system's keyring: Keychain, Credential Manager, Secret Service.
 *
 * It is asked by a child process. A keyring whose service does not answer blocks whoever asks, thread
 * and all, and cannot be interrupted; a child can be ended. The secret goes through pipes, never
 * through arguments or the environment, which others may see. On Linux only the Secret Service
 * counts: the kernel's keyring forgets everything at the next start of the machine.
 */
import { spawn } from "node:child_process";
import { extname, join } from "node:path";

/** Where home keys can be kept by name. */
export interface Keyring {
  /** Undefined when it has no such entry. */
  read(name: string): Promise<KeyringAnswer>;
  write(name: string, secret: string): Promise<KeyringAnswer>;
}

export type KeyringAnswer =
  | { readonly kind: "found"; readonly secret: string }
  | { readonly kind: "none" }
  | { readonly kind: "written" }
  /** There is no keyring, or it does not answer. Whether a write happened is then unknown. */
  | { readonly kind: "unavailable"; readonly reason: string };

/** What the child is told; one line of JSON. */
interface KeyringRequest {
  readonly action: "read" | "write";
  readonly name: string;
  readonly secret?: string;
}

/** Long enough for a keyring that has to be started, too short for people to give up. */
const TIMEOUT_MS = 5_000;

export function systemKeyring(timeoutMs = TIMEOUT_MS): Keyring {
  return {
    read: (name) => ask({ action: "read", name }, timeoutMs),
    write: (name, secret) => ask({ action: "write", name, secret }, timeoutMs),
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
    resolve(parseAnswer(answer) ?? { kind: "unavailable", reason });
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

function parseAnswer(text: string): KeyringAnswer | undefined {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof answer !== "object" || answer === null || !("kind" in answer)) return undefined;
  if (answer.kind === "none" || answer.kind === "written") return { kind: answer.kind };
  if (answer.kind === "found" && "secret" in answer && typeof answer.secret === "string") {
    return { kind: "found", secret: answer.secret };
  }
  if (answer.kind === "unavailable" && "reason" in answer && typeof answer.reason === "string") {
    return { kind: "unavailable", reason: answer.reason };
  }
  return undefined;
}
