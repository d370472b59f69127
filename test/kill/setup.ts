/**
 * What the programs of the kill test are told by their parent: one JSON text in the environment.
 */
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
  const setup: Setup = JSON.parse(process.env[NAME] ?? "{}");
  return setup;
}
