/**
 * The flags of `holdfast chat`, checked once.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import * as z from "../../protocol/rules.ts";
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

const URL_RULE = httpUrl(": the API key belongs in HOLDFAST_API_KEY");
const FLAGS = z.object({ url: z.optional(URL_RULE) });
const VARIABLES = z.object({ HOLDFAST_URL: variable(URL_RULE) });

export type ChatSettings = Readonly<ReturnType<typeof checkChatFlags>>;

export function checkChatFlags(flags: ChatFlags, { cwd, env }: Surroundings) {
  if (flags.continue === true && flags.resume !== undefined) {
    throw usageError("--continue and --resume each name a conversation; give one of them");
  }
  return {
    begin: beginOf(flags),
    model: flags.model ?? "",
    url: checked(FLAGS, flags, asFlag).url ?? checked(VARIABLES, env).HOLDFAST_URL,
    allow: flags.allow ?? [],
    allowsAll: flags.yes === true,
    workspace: resolve(cwd, flags.workspace ?? "."),
    systemPrompt: flags.system === undefined ? undefined : systemPrompt(flags.system, cwd),
    hasTools: flags.tools !== false,
    showsThinking: flags.thinking !== false,
    isJson: flags.json === true,
  };
}

function beginOf(flags: ChatFlags): "ask" | "continue" | { readonly conversation: string } {
  if (flags.resume !== undefined) return { conversation: flags.resume };
  return flags.continue === true ? "continue" : "ask";
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
