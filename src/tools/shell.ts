/**
 * Commands in the user's shell: `shell` answers with the output, `shell_stream` says it while it comes.
 *
 * Invariant: nothing of a command runs before its process group is on disk, and when the run answers nothing of the
 * group that took part in its output is left.
 */
import { existsSync } from "node:fs";
import type { ToolRun } from "../client/tools.ts";
import { lastChars } from "../protocol/characters.ts";
import type { ExecRequest } from "../protocol/exec-codec.ts";
import type { ShellArgs } from "../protocol/messages.ts";
import { type CommandEnd, type CommandOptions, runCommand } from "./command.ts";
import type { ShellConfig } from "./config.ts";
import { commandEnvironment, type Environment } from "./environment.ts";
import { fault } from "./faults.ts";
import { selfPath } from "./held.ts";
import type { Jail } from "./jail.ts";
import { outputStream } from "./output-stream.ts";
import { outputWindow } from "./output-window.ts";
import { markOf, type ProcessRecords, RUN_VARIABLE } from "./process-records.ts";
import { contentOf, type ResultMessage } from "./results.ts";
import type { Sandbox } from "./sandbox.ts";

export interface ShellPlace {
  readonly jail: Jail;
  readonly config: ShellConfig;
  readonly sandbox: Sandbox;
  readonly records: ProcessRecords;
  readonly env: Environment;
}

/** What a single request may ask for at most. */
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
/** Of the output, for the words about a command that was stopped. */
const ABORTED_OUTPUT_CHARS = 2000;

export async function shell(
  args: ShellArgs,
  exec: ExecRequest,
  place: ShellPlace,
  run: ToolRun,
): Promise<ResultMessage> {
  const windows = {
    stdout: outputWindow(outputMax(args, place)),
    stderr: outputWindow(outputMax(args, place)),
  };
  const { reason, ...exit } = await runShell(args, exec, place, run, {
    started: () => undefined,
    output: (from, bytes) => void windows[from].add(bytes),
  });
  const { stdout, stderr } = windows;
  const all = Buffer.concat([stdout.bytes(), stderr.bytes()]);
  switch (reason) {
    case "timeout": {
      const value = { timeoutMs: timeoutOf(args, place.config), output: await contentOf(all, run) };
      return { case: "shellResult", value: { result: { case: "timeout", value } } };
    }
    case "aborted": {
      const value = { detail: abortDetail(exit, all) };
      return { case: "shellResult", value: { result: { case: "aborted", value } } };
    }
    case "exited": {
      const value = {
        ...exit,
        stdout: await contentOf(stdout.bytes(), run),
        stderr: await contentOf(stderr.bytes(), run),
        outputTruncated: stdout.isTruncated() || stderr.isTruncated(),
      };
      return { case: "shellResult", value: { result: { case: "success", value } } };
    }
  }
}

export async function shellStream(
  args: ShellArgs,
  exec: ExecRequest,
  place: ShellPlace,
  run: ToolRun,
): Promise<ResultMessage> {
  const stream = outputStream(exec, run, outputMax(args, place));
  const { reason, ...exit } = await runShell(args, exec, place, run, stream);
  const outputTruncated = await stream.finish();
  switch (reason) {
    case "timeout": {
      const value = { timeoutMs: timeoutOf(args, place.config) };
      return { case: "shellStreamResult", value: { result: { case: "timeout", value } } };
    }
    case "aborted": {
      const value = { detail: abortDetail(exit) };
      return { case: "shellStreamResult", value: { result: { case: "aborted", value } } };
    }
    case "exited": {
      const value = { ...exit, outputTruncated };
      return { case: "shellStreamResult", value: { result: { case: "success", value } } };
    }
  }
}

async function runShell(
  args: ShellArgs,
  exec: ExecRequest,
  { jail, config, sandbox, records, env }: ShellPlace,
  run: ToolRun,
  listener: Pick<CommandOptions, "started" | "output">,
): Promise<CommandEnd> {
  if (args.command.includes("\0")) throw fault("EINVAL", "a command has no NUL character");
  const record = records.newRun(markOf(exec.args));
  using place = jail.locate(args.workingDirectory);
  const directory = place.held;
  try {
    if (directory === undefined) throw fault("ENOENT", `there is no ${args.workingDirectory}`);
    if (!directory.stats.isDirectory()) throw fault("ENOTDIR", `${args.workingDirectory} is no directory`);
    const end = await runCommand({
      argv: sandbox.wrap([shellOf(config), "-c", args.command], directory.path),
      cwd: selfPath(directory),
      env: { ...commandEnvironment(env, config.environment), [RUN_VARIABLE]: record.id },
      timeoutMs: timeoutOf(args, config),
      signal: run.signal,
      started: (pid) => {
        record.begins(pid);
        listener.started(pid);
      },
      output: (from, bytes) => listener.output(from, bytes),
    });
    // Also what left the group: it was to be stopped, not only its leader.
    if (end.reason !== "exited") record.stop();
    return end;
  } finally {
    record.ends();
  }
}

function shellOf({ program }: ShellConfig): string {
  return program ?? (existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh");
}

function timeoutOf({ timeoutMs }: ShellArgs, config: ShellConfig): number {
  // 0 would be over before it began; it can only mean "no special wish".
  const wished = timeoutMs === undefined || timeoutMs === 0 ? config.timeoutMs : timeoutMs;
  return Math.min(wished, config.timeoutMsMax);
}

function outputMax({ outputBytesMax }: ShellArgs, { config }: ShellPlace): number {
  return outputBytesMax === 0 ? config.outputBytesMax : Math.min(outputBytesMax, OUTPUT_BYTES_MAX);
}

function abortDetail({ durationMs }: Pick<CommandEnd, "durationMs">, output = Buffer.of()): string {
  const said = lastChars(output.toString("utf8"), ABORTED_OUTPUT_CHARS);
  const after = `stopped after ${(durationMs / 1000).toFixed(1)} s; what it did until then is done`;
  return said === "" ? after : `${after}. The end of its output:\n${said}`;
}
