/**
 * What the programs of the kill test are told by their parent: one JSON text in the environment.
 */
import type { ChildProcess } from "node:child_process";

export interface Setup {
  readonly url: string;
  readonly port: number;
  readonly apiKey: string;
  readonly homeKey: string;
  /** Where the client keeps its journals, and the server its database. */
  readonly directory: string;
  readonly history: string;
  readonly transport: "http2" | "fetch";
  readonly seed: number;
}

/** Whose streams they are. */
export const PRINCIPAL = "alice";

const NAME = "HOLDFAST_KILL_SETUP";

export function setupEnvironment(setup: Setup): NodeJS.ProcessEnv {
  return { ...process.env, [NAME]: JSON.stringify(setup) };
}

export function readSetup(): Setup {
  const setup: unknown = JSON.parse(process.env[NAME] ?? "null");
  if (!isSetup(setup)) throw new Error("this program is started by the kill test");
  return setup;
}

/** Written by our own parent. */
function isSetup(value: unknown): value is Setup {
  return typeof value === "object" && value !== null && "history" in value;
}

/** The port that a server tells its parent when it listens. */
export async function listeningPort(server: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("message", (message) => {
      if (typeof message === "object" && "port" in message) resolve(Number(message.port));
      else reject(new Error("the server said something else than its port"));
    });
    server.once("exit", (code) => reject(new Error(`the server did not start: exit code ${String(code)}`)));
  });
}
