/**
 * The tools of a page: functions that run in this tab, and a person's yes or no before those that need one.
 *
 * The same `tool` as in a program, without files, commands and MCP servers. When and how often a tool runs is decided by the tool journal; an approval waits
 * here until the person answers it, and is asked again after a reload.
 */
import { create, fromBinary } from "../protocol/message.ts";
import type { OfferedTools } from "../client/agent/run-request.ts";
import type { Approval, ToolRun, Tools } from "../client/tools.ts";
import { messageOf } from "../protocol/errors.ts";
import { type ExecRequest, failedResult, writeExecThrow } from "../protocol/exec-codec.ts";
import { parsedJson } from "../protocol/fields.ts";
import { ExecKind, ExecServerMessageSchema, ToolDefinitionSchema } from "../protocol/messages.ts";
import { progressLines } from "../tools/progress-lines.ts";
import { bytesOf, contentOf, type ResultMessage, writeExecResult } from "../tools/results.ts";
import type { Tool } from "../tools/tool.ts";

/** A tool call that waits for a yes or a no. */
export interface PendingApproval {
  /** The same after a reload. */
  readonly id: string;
  readonly idempotencyKey: string;
  readonly execId: string;
  readonly tool: string;
  /** As the model wrote them; not checked yet. */
  readonly args: unknown;
}

interface PageTools extends OfferedTools {
  readonly tools: Tools;
  readonly approvals: PageApprovals;
}

/** How long a yes is good for, when the tool cannot run at once. */
const APPROVAL_MS = 600_000;

export class PageApprovals {
  readonly #pending = new Map<string, PendingApproval & { readonly answer: (approval: Approval) => void }>();
  readonly #listeners = new Set<() => void>();

  of(idempotencyKey: string): readonly PendingApproval[] {
    return [...this.#pending.values()].filter((one) => one.idempotencyKey === idempotencyKey);
  }

  /** False when nothing of that id waits any more. */
  answer(id: string, isAllowed: boolean, reason = "the user said no"): boolean {
    const pending = this.#pending.get(id);
    const untilMs = Date.now() + APPROVAL_MS;
    if (pending === undefined) return false;
    this.#pending.delete(id);
    pending.answer(isAllowed ? { allowed: true, untilMs } : { allowed: false, untilMs: 0, reason });
    this.#tell();
    return true;
  }

  ask(question: PendingApproval, signal: AbortSignal): Promise<Approval> {
    const { promise, resolve } = Promise.withResolvers<Approval>();
    const over = (): void => resolve({ allowed: false, untilMs: 0, reason: "the person did not answer" });
    signal.addEventListener("abort", over, { once: true });
    this.#pending.set(question.id, { ...question, answer: resolve });
    this.#tell();
    return promise.finally(() => {
      signal.removeEventListener("abort", over);
      if (this.#pending.delete(question.id)) this.#tell();
    });
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

interface PageToolsOptions {
  readonly tools: Readonly<Record<string, Tool>>;
  readonly conversationOf: (idempotencyKey: string) => Promise<string>;
}

export function pageTools({ tools, conversationOf }: PageToolsOptions): PageTools {
  const approvals = new PageApprovals();
  const known = new Map(Object.entries(tools));
  const definitions = [...known].map(([name, { description, parameters, repeatable }]) =>
    create(ToolDefinitionSchema, {
      name,
      description,
      parametersJson: JSON.stringify(parameters),
      repeatable,
    }),
  );

  async function carryOut(exec: ExecRequest, run: ToolRun): Promise<ResultMessage> {
    const tool = known.get(exec.tool);
    const absent = `there is no tool "${exec.tool}" in this page`;
    if (tool === undefined) return failed(absent);
    const lines = progressLines(exec, run);
    try {
      const args = await argumentsIn(exec, run);
      const running = tool.run(args, {
        signal: run.signal,
        conversation: await conversationOf(run.idempotencyKey),
        callId: `${run.idempotencyKey}:${exec.execId}`,
        progress: (line) => lines.say(line),
      });
      const { text, isError } = plain(await orStopped(running, run.signal));
      const content = [{ content: await contentOf(new TextEncoder().encode(text), run) }];
      const value = { content, isError };
      return { case: "mcpResult", value: { result: { case: "success", value } } };
    } catch (cause) {
      return failed(messageOf(cause));
    } finally {
      await lines.finish();
    }
  }

  return {
    kinds: known.size === 0 ? [] : [ExecKind.MCP],
    definitions,
    approvals,
    tools: {
      policy: ({ tool }) => {
        const { repeatable = false, needsApproval = false } = known.get(tool) ?? {};
        return { repeatable, needsApproval };
      },
      approve: async (exec, asked) => {
        const { idempotencyKey, signal } = asked;
        const { execId, tool } = exec;
        const args = await argumentsIn(exec, asked);
        return approvals.ask(
          { id: `${idempotencyKey}:${execId}`, idempotencyKey, execId, tool, args },
          signal,
        );
      },
      run: async (exec, run) =>
        exec.kind === "mcp"
          ? writeExecResult(exec, await carryOut(exec, run))
          : writeExecThrow(exec, "unknown_kind", `this page does not offer "${exec.tool}"`),
      // A function of a page that is gone runs no more.
      stopLeftover: () => undefined,
    },
  };
}

/** A function that does not listen to its signal is left behind after this long. */
const STOP_MS = 2_000;

function orStopped<Result>(running: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = (): void => void setTimeout(() => reject(new Error("stopped before it was done")), STOP_MS);
  signal.addEventListener("abort", stop, { once: true });
  return Promise.race([running, promise]).finally(() => signal.removeEventListener("abort", stop));
}

function failed(message: string): ResultMessage {
  return failedResult("mcp", { case: "error", value: { message, systemCode: "" } });
}

function plain(result: Awaited<ReturnType<Tool["run"]>>): {
  readonly text: string;
  readonly isError: boolean;
} {
  if (typeof result === "string") return { text: result, isError: false };
  const { text, json, isError = false } = result;
  return { text: text ?? JSON.stringify(json) ?? "done", isError };
}

async function argumentsIn(exec: ExecRequest, run: Pick<ToolRun, "download">): Promise<unknown> {
  const { message } = fromBinary(ExecServerMessageSchema, exec.args);
  if (message.case !== "mcpArgs" || message.value.argsJson === undefined) return {};
  const text = new TextDecoder().decode(await bytesOf(message.value.argsJson, run));
  return text.trim() === "" ? {} : parsedJson(text);
}
