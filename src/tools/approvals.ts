/**
 * Who may do what: a policy per tool, and the question to the user where the policy is "ask".
 *
 * An approval is for one exec with exactly these arguments, in this workspace, and runs out (C7): the tool journal binds
 * it to the arguments' hash, the time comes from here. Where nobody can be asked, what would ask is denied with a
 * reason that says how to allow it, so the model and the user both know.
 */
import type { Approval, ToolRun } from "../client/tools.ts";
import type { ExecRequest } from "../protocol/exec-codec.ts";
import type { ExecServerMessage } from "../protocol/messages.ts";
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

export class Approvals {
  readonly #config: ToolsConfig;
  readonly #workspace: string;
  readonly #jail: Jail | undefined;
  readonly #ask: Ask | undefined;
  readonly #always = new Set<string>();

  /** Without a jail no file can be compared. */
  constructor(
    config: ToolsConfig,
    { workspace, jail }: { readonly workspace: string; readonly jail: Jail | undefined },
    ask: Ask | undefined,
  ) {
    this.#config = config;
    this.#workspace = workspace;
    this.#jail = jail;
    this.#ask = ask;
  }

  policy(subject: PolicySubject): Policy {
    const kind = subject.names.at(-1) ?? "";
    const configured = subject.names
      .map((name) => ({ name, policy: ownValue(this.#config.approvals, name) }))
      // A server or a declared tool that is called "read" is no reading of files: what is allowed for that is not for it.
      .find(
        ({ name, policy }) =>
          policy !== undefined && (name === kind || policy === "deny" || !isOwnTool(name)),
      )?.policy;
    const usual = ownValue(DEFAULTS, kind);
    const policy = configured ?? subject.declared ?? usual ?? "ask";
    if (policy !== "ask") return policy;
    return this.#isAllowedBefore(subject) ? "allow" : "ask";
  }

  #isAllowedBefore({ message: { message }, ...subject }: PolicySubject): boolean {
    if (this.#always.has(scopeOf({ ...subject, message }))) return true;
    const isShell = message.case === "shellArgs" || message.case === "shellStreamArgs";
    return isShell && isAllowedCommand(message.value.command, this.#config.shell.allow);
  }

  async approve(subject: PolicySubject, asked: Pick<ToolRun, "download" | "signal">): Promise<Approval> {
    const policy = this.policy(subject);
    const name = subject.names[0] ?? "";
    if (policy === "deny") return no(`"${name}" is denied by tools.approvals in holdfast.config.json`);
    if (policy === "allow") return this.#yes();
    if (this.#ask === undefined) return no(nobodyToAsk(name));
    let answer: ApprovalAnswer;
    try {
      answer = await this.#ask(await this.#requestOf(subject, name, asked), asked.signal);
    } catch (cause) {
      return no(`the question could not be asked: ${cause instanceof Error ? cause.message : String(cause)}`);
    }
    switch (answer.answer) {
      case "always":
        this.#always.add(scopeOf({ ...subject, message: subject.message.message }));
        return this.#yes();
      case "once":
        return this.#yes();
      case "no":
        return no(answer.reason ?? "the user said no");
    }
  }

  async #requestOf(
    { exec, message }: PolicySubject,
    tool: string,
    blobs: Pick<ToolRun, "download">,
  ): Promise<ApprovalRequest> {
    const { title, lines } = approvalText(message, tool, await lookAt(message, this.#jail, blobs));
    return {
      execId: exec.execId,
      tool,
      title,
      text: lines.map(({ text }) => text).join("\n"),
      lines,
      argsSha256: markOf(exec.args),
      workspace: this.#workspace,
    };
  }

  #yes(): Approval {
    return { allowed: true, untilMs: Date.now() + this.#config.approvalMs };
  }
}

function no(reason: string): Approval {
  return { allowed: false, untilMs: 0, reason };
}

function nobodyToAsk(name: string): string {
  return (
    `"${name}" needs an approval and nobody can be asked here. To allow it, set tools.approvals.${name} to "allow" in ` +
    `holdfast.config.json${name === "shell" ? ", or list the command under tools.shell.allow" : ""}`
  );
}

/** What "always" covers. A command is not like any other command. */
function scopeOf({
  names,
  message,
}: Pick<PolicySubject, "names"> & { message: ExecServerMessage["message"] }): string {
  const isShell = message.case === "shellArgs" || message.case === "shellStreamArgs";
  // With the kind: a declared tool that is called "write" is not the writing of files.
  return JSON.stringify(isShell ? [...names, message.value.command, message.value.workingDirectory] : names);
}

/** Names come from servers; `constructor` must find nothing. */
function ownValue(table: Readonly<Record<string, Policy>>, name: string): Policy | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
