/** What of its surroundings a server in this process depends on; given, so that a test or a program can have others. */
import { findHomeDirectory } from "../client-node/scope.ts";
import { usageError } from "./failures.ts";

export interface Machine {
  /** API keys of providers, `HOLDFAST_HOME_KEY` and `HOLDFAST_SESSION_REUSE` are read from it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Asked for only when no directory was named. */
  readonly home: string;
  readonly platform: NodeJS.Platform;
  readonly now: () => number;
}

export function thisMachine(): Machine {
  return {
    env: process.env,
    get home(): string {
      const home = findHomeDirectory();
      if (home === undefined)
        throw usageError("this user has no home directory: set HOME, or name the data directory");
      return home;
    },
    platform: process.platform,
    now: Date.now,
  };
}
