/**
 * The words that the agent itself puts into a prompt. Stable, so that prompt caches stay warm.
 */
import type { RunRequest } from "../protocol/messages.ts";

const AGENT =
  "You are an agent that works on the user's machine through tools. Look before you change anything, make the change " +
  "that was asked for and no other, and check that it works. The tools run on the user's machine, in the workspace; the " +
  "user may be asked to allow them and may say no. A tool result that says the outcome is unknown means that it may or may not " +
  "have happened: look before you try again. When you are done, say what you did, briefly.";

/** When the client gives none, not even an empty one. A plain chat has none at all. */
export function systemPrompt(request: RunRequest, hasBuiltIns: boolean, given: string): string {
  if (request.systemPrompt !== undefined || !hasBuiltIns) return given;
  const { workspace = "", operatingSystem = "", shell = "", timeZone = "" } = request.environment ?? {};
  const facts = [
    ["Workspace", workspace],
    ["Operating system", operatingSystem],
    ["Shell", shell],
    ["Time zone", timeZone],
  ].flatMap(([name, value]) => (value === "" ? [] : [`${name}: ${value}`]));
  return [AGENT, ...facts].join("\n");
}

export const SUMMARIZE =
  "Summarize our conversation so that the work can go on from the summary alone. Keep what was asked for, what was decided and " +
  "why, what was done (files, commands, results), what is left to do, and anything the user told you to remember. Do not " +
  "call tools. Answer with the summary only.";

export const CONTINUE = "Continue.";

export function afterSummary(summary: string): string {
  return `This is a summary of our conversation so far:\n\n${summary}`;
}

export function ranCommand(command: string, result: string): string {
  return `I ran a command myself:\n$ ${command}\n${result}`;
}
