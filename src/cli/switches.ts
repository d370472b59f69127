/**
 * The switches of the client that a command opens: `reliable`, `persistence`, `retryLookbackWindowMs`. A flag wins over the
 * environment, which wins over the config file.
 *
 * Flags and environment are fixed when the command starts. The file is read anew for each stream, so a change of it counts from the
 * next turn on, and the turn under way keeps what it began with. A file that is not good says so, and changes nothing.
 */
import { messageOf } from "../protocol/errors.ts";
import { environmentSwitches } from "../client-node/environment-switches.ts";
import * as z from "../protocol/rules.ts";
import { asFlag, checked, wholeText, yesOrNo } from "../protocol/checked.ts";
import type { Switches } from "../client/stream-options.ts";
import { readConfigFile } from "./config-file.ts";
import { given } from "../protocol/given.ts";
import type { Surroundings } from "./terminal.ts";

interface SwitchSources {
  readonly flags: SwitchFlags;
  /** The config file that was named; without one the file has no say. */
  readonly configFile: string | undefined;
  readonly surroundings: Pick<Surroundings, "env" | "cwd">;
  /** Hears of a change, and of a file that is not good. */
  readonly onNotice: (message: string) => void;
}

/** What each new stream is opened with. Throws at once when anything is wrong from the beginning. */
export function switchesOf({ flags, configFile, surroundings, onNotice }: SwitchSources): () => Switches {
  const { env, cwd } = surroundings;
  const fixed = { ...environmentSwitches(env), ...given(checked(FLAGS, flags, asFlag)) };
  const read = (): Switches => ({ ...fileSwitches(configFile, cwd), ...fixed });
  let lastGood = read();
  let trouble: string | undefined;
  return () => {
    try {
      const next = read();
      trouble = undefined;
      const changes = changesOf(lastGood, next);
      lastGood = next;
      if (changes !== "") onNotice(`${configFile}: from the next turn on ${changes}`);
    } catch (cause) {
      const message = messageOf(cause);
      if (message !== trouble) onNotice(`${message}; the switches stay as they were`);
      trouble = message;
    }
    return lastGood;
  };
}

function fileSwitches(configFile: string | undefined, cwd: string): Switches {
  if (configFile === undefined) return {};
  const { reliable, persistence, retryLookbackWindowMs } = readConfigFile(configFile, cwd);
  return given({ reliable, persistence, retryLookbackWindowMs });
}

const FLAGS = z.object({
  reliable: z.optional(yesOrNo()),
  persistence: z.optional(yesOrNo()),
  retryLookbackWindowMs: z.optional(wholeText(0)),
});

/** As commander hands them over. */
export type SwitchFlags = Readonly<z.input<typeof FLAGS>>;

function changesOf(before: Switches, after: Switches): string {
  const { reliable, persistence, retryLookbackWindowMs } = after;
  const changes: string[] = [];
  if (reliable !== before.reliable) changes.push(`reliable is ${onOrOff(reliable)}`);
  if (persistence !== before.persistence) changes.push(`persistence is ${onOrOff(persistence)}`);
  if (retryLookbackWindowMs !== before.retryLookbackWindowMs) {
    changes.push(`retryLookbackWindowMs is ${retryLookbackWindowMs ?? "the default"}`);
  }
  return changes.join(", ");
}

function onOrOff(value: boolean | undefined): string {
  return (value ?? true) ? "on" : "off";
}
