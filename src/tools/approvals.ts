/**
 * Who may do what: a policy per tool, and the question to the user where the policy is "ask".
 *
 * An approval is for one exec with exactly these arguments, in this workspace, and runs out (C7): the tool journal binds
 * it to the arguments' hash, the time comes from here. Where no user can be asked, what would ask is denied with a
 * reason that says how to allow it, so the model and the user both know.
 */
import type { Approval, ToolRun } from "../client/tools.ts";
import { messageOf } from "../protocol/errors.ts";
import type { ExecRequest } from "../protocol/exec-codec.ts";
import type { ExecServerMessage, ShellArgs } from "../protocol/messages.ts";
import { lookAt } from "./approval-sight.ts";
import { type ApprovalLine, approvalText } from "./approval-text.ts";
import type { Policy, ToolsConfig } from "./config.ts";
import type { Jail } from "./jail.ts";
import { markOf } from "./process-records.ts";
import { isAllowedCommand } from "./simple-command.ts";

export interface ApprovalRequest {
  readonly execId: string;
  /** The kind, or the name of a declared tool. */
  readonly tool: string;
  /** One line, safe to print. */
  readonly title: string;
  /** The arguments, hidden characters made visible, safe to print; of a write the change. */
  readonly text: string;
  /** The same line by line, with what each is. */
  readonly lines: readonly ApprovalLine[];
  /** What the approval is bound to. */
  readonly argsSha256: string;
  readonly workspace: string;
}

export type ApprovalAnswer =
  | { readonly answer: "once" }
  /** For a command: this same command; for any other tool: the tool. Until the client ends. */
  | { readonly answer: "always" }
  | { readonly answer: "no"; readonly reason?: string };

/** The signal is aborted when the answer counts no longer. */
export type Ask = (request: ApprovalRequest, signal: AbortSignal) => Promise<ApprovalAnswer>;

/** Looking is allowed, changing is asked about. */
const DEFAULTS: Readonly<Record<string, Policy>> = Object.freeze({
  read: "allow",
  ls: "allow",
  glob: "allow",
  grep: "allow",
  write: "ask",
  delete: "ask",
  shell: "ask",
  mcp: "ask",
  function: "ask",
  subagent: "ask",
});

function isOwnTool(name: string): boolean {
  return Object.hasOwn(DEFAULTS, name);
}

/** What the policy of an exec is looked up by. */
export interface PolicySubject {
  readonly exec: ExecRequest;
  readonly message: ExecServerMessage;
  /** From the particular to the general: a tool's name, its server, `mcp`. */
  readonly names: readonly string[];
  /** What a function tool says about itself. */
  readonly declared: Policy | undefined;
}

export interface Approvals {
  policy(subject: PolicySubject): Policy;
  approve(
    subject: PolicySubject,
    asked: Pick<ToolRun, "download" | "idempotencyKey" | "signal">,
  ): Promise<Approval>;
}

interface ApprovalPlace {
  readonly workspace: string;
  /** Without one no file can be compared. */
  readonly jail: Jail | undefined;
}

export function approvalsBy(
  config: ToolsConfig,
  { workspace, jail }: ApprovalPlace,
  ask: Ask | undefined,
): Approvals {
  /** What was allowed for good. */
  const always = new Set<string>();

  const policyOf = (subject: PolicySubject): Policy => {
    const kind = subject.names.at(-1) ?? "";
    const configured = subject.names
      .map((name) => ({ name, policy: ownValue(config.approvals, name) }))
      // A server or a declared tool that is called "read" is no reading of files: what is allowed for that is not for it.
      .find(
        ({ name, policy }) =>
          policy !== undefined && (name === kind || policy === "deny" || !isOwnTool(name)),
      )?.policy;
    const policy = configured ?? subject.declared ?? ownValue(DEFAULTS, kind) ?? "ask";
    if (policy !== "ask") return policy;
    const command = shellArgsOf(subject)?.command;
    const isListed = command !== undefined && isAllowedCommand(command, config.shell.allow);
    return isListed || always.has(scopeOf(subject)) ? "allow" : "ask";
  };

  const yes = (): Approval => ({ allowed: true, untilMs: Date.now() + config.approvalMs });

  return {
    policy: policyOf,
    approve: async (subject, asked) => {
      const { exec, message } = subject;
      const policy = policyOf(subject);
      const tool = subject.names[0] ?? "";
      if (policy === "deny") return no(`"${tool}" is denied by tools.approvals in holdfast.config.json`);
      if (policy === "allow") return yes();
      if (ask === undefined) return no(nobodyToAsk(tool));
      let answer: ApprovalAnswer;
      try {
        const { title, lines } = approvalText(message, tool, await lookAt(message, jail, asked));
        const text = lines.map((line) => line.text).join("\n");
        const { execId, args } = exec;
        const request = { execId, tool, title, text, lines, argsSha256: markOf(args), workspace };
        answer = await ask(request, asked.signal);
      } catch (cause) {
        return no(`the question could not be asked: ${messageOf(cause)}`);
      }
      if (answer.answer === "no") return no(answer.reason ?? "the user said no");
      if (answer.answer === "always") always.add(scopeOf(subject));
      return yes();
    },
  };
}

function no(reason: string): Approval {
  return { allowed: false, untilMs: 0, reason };
}

function nobodyToAsk(name: string): string {
  return (
    `"${name}" needs an approval and no user can be asked here. To allow it, set tools.approvals.${name} to "allow" in ` +
    `holdfast.config.json${name === "shell" ? ", or list the command under tools.shell.allow" : ""}`
  );
}

function shellArgsOf({ message: { message } }: PolicySubject): ShellArgs | undefined {
  return message.case === "shellArgs" || message.case === "shellStreamArgs" ? message.value : undefined;
}

/** What "always" covers. A command is not like any other command. */
function scopeOf(subject: PolicySubject): string {
  const shell = shellArgsOf(subject);
  // With the kind: a declared tool that is called "write" is not the writing of files.
  return JSON.stringify([
    ...subject.names,
    ...(shell === undefined ? [] : [shell.command, shell.workingDirectory]),
  ]);
}

/** Names come from servers; `constructor` must find nothing. */
function ownValue(table: Readonly<Record<string, Policy>>, name: string): Policy | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
