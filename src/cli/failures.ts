/**
 * What a command says when it cannot do what was asked: one line, what to do about it, an exit code.
 *
 * Exit code 2 means that the command was not understood (a flag, a field of the configuration, a name),
 * 1 that it was and could not be done, 75 that a supervisor should start it again. A stack trace helps only people who work on Holdfast,
 * so it takes HOLDFAST_DEBUG=1.
 */
import { CommanderError } from "commander";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { pastable } from "./own-command.ts";
import { visible } from "./terminal.ts";

export const EXIT_FAILED = 1;
const EXIT_USAGE = 2;
/** EX_TEMPFAIL of sysexits.h. */
const EXIT_TRY_AGAIN = 75;

/** The command worked until something under it gave way: the same command may work later. */
export class TemporaryFailure extends Error {
  override readonly name = "TemporaryFailure";
}

export interface Failed {
  readonly exitCode: number;
  /** Undefined when everything was said already. */
  readonly text: string | undefined;
}

interface Telling {
  /** With stack traces. */
  readonly isDebug: boolean;
  /** How the user runs `holdfast`. */
  readonly command: string;
}

export function describeFailure(error: unknown, { isDebug, command }: Telling): Failed {
  // Commander has printed its message, the help or the version itself.
  if (error instanceof CommanderError) {
    return { exitCode: error.exitCode === 0 ? 0 : EXIT_USAGE, text: undefined };
  }
  const message = pastable(printable(messageOf(error)), command);
  const stack = isDebug && error instanceof Error ? `\n${printable(describeStack(error))}` : "";
  if (error instanceof TemporaryFailure) {
    return { exitCode: EXIT_TRY_AGAIN, text: `holdfast: ${message}${stack}` };
  }
  if (!(error instanceof HoldfastError)) {
    const hint = isDebug ? "" : "\nThis is a bug. HOLDFAST_DEBUG=1 shows where it happened.";
    return { exitCode: EXIT_FAILED, text: `holdfast: ${message}${hint}${stack}` };
  }
  const isUsage = error.code === "invalid_argument" || error.code === "too_large";
  return { exitCode: isUsage ? EXIT_USAGE : EXIT_FAILED, text: `holdfast: ${message}${stack}` };
}

/** A message may come from a server or a log: it must not steer the terminal. */
function printable(message: string): string {
  return message.split("\n").map(visible).join("\n");
}

function describeStack(error: Error): string {
  const stack = error.stack ?? error.message;
  return error.cause instanceof Error ? `${stack}\ncaused by ${describeStack(error.cause)}` : stack;
}
