/**
 * The flags of `holdfast chat`, checked once.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import * as z from "zod/mini";
import { asFlag, checked, httpUrl, variable } from "../../protocol/checked.ts";
import { systemCode, usageError } from "../../node/failures.ts";
import type { SwitchFlags } from "../switches.ts";
import type { Surroundings } from "../terminal.ts";

/** As commander hands them over. */
export interface ChatFlags extends SwitchFlags {
  readonly continue?: boolean;
  readonly resume?: string;
  readonly list?: boolean;
  readonly prompt?: string;
  readonly json?: boolean;
  readonly model?: string;
  readonly url?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly allow?: readonly string[];
  readonly yes?: boolean;
  readonly workspace?: string;
  readonly system?: string;
  /** `--no-tools`. */
  readonly tools?: boolean;
  /** `--no-thinking`. */
  readonly thinking?: boolean;
}

export interface ChatSettings {
  readonly begin: "ask" | "continue" | { readonly conversation: string };
  readonly model: string;
  readonly url: string | undefined;
  readonly allow: readonly string[];
  readonly allowsAll: boolean;
  readonly workspace: string;
  readonly systemPrompt: string | undefined;
  readonly hasTools: boolean;
  readonly showsThinking: boolean;
  readonly isJson: boolean;
}

const URL_RULE = httpUrl(": the API key belongs in HOLDFAST_API_KEY");
const FLAGS = z.object({ url: z.optional(URL_RULE) });
const VARIABLES = z.object({ HOLDFAST_URL: variable(URL_RULE) });

export function checkChatFlags(flags: ChatFlags, { cwd, env }: Surroundings): ChatSettings {
  if (flags.continue === true && flags.resume !== undefined) {
    throw usageError("--continue and --resume each name a conversation; give one of them");
  }
  const { url: flagged } = checked(FLAGS, flags, asFlag);
  const url = flagged ?? checked(VARIABLES, env).HOLDFAST_URL;
  return {
    begin: beginOf(flags),
    model: flags.model ?? "",
    url,
    allow: flags.allow ?? [],
    allowsAll: flags.yes === true,
    workspace: resolve(cwd, flags.workspace ?? "."),
    systemPrompt: flags.system === undefined ? undefined : systemPrompt(flags.system, cwd),
    hasTools: flags.tools !== false,
    showsThinking: flags.thinking !== false,
    isJson: flags.json === true,
  };
}

function beginOf({ continue: goesOn, resume }: ChatFlags): ChatSettings["begin"] {
  if (resume !== undefined) return { conversation: resume };
  return goesOn === true ? "continue" : "ask";
}

/** `@file` is the file's text; `@@...` is a text that begins with an at sign. */
function systemPrompt(said: string, cwd: string): string {
  if (said.startsWith("@@")) return said.slice(1);
  if (!said.startsWith("@")) return said;
  const path = resolve(cwd, said.slice(1));
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw usageError(`the system prompt ${path} cannot be read (${systemCode(error) ?? String(error)})`);
  }
}
