/**
 * The tool calls of a step, each from its first exec to its result.
 *
 * What a call does next follows from its arguments and from what the logs say of its execs, so it is the same before
 * and after a restart: what was asked is not asked again, what was answered is used. A call may own several execs (an
 * edit reads, then writes); their ids say so and are unique within the stream.
 *
 * Invariant: one `tool_call_completed` per call, after the outcomes of all its execs.
 */
import type { ToolCallPart } from "../protocol/chat-message.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { InteractionResponse, ReadSuccess } from "../protocol/messages.ts";
import {
  type CallPlan,
  type EditArgs,
  type ExecPlan,
  planAt,
  type Plans,
  type Question,
} from "./call-plan.ts";
import { isSummarizing } from "./conversation.ts";
import type { OverCall } from "./decision.ts";
import { applyEdits } from "./edit.ts";
import { writeAfter } from "./exec-ids.ts";
import type { ExecReply } from "./exec-reply.ts";
import { type Facts, outcomeOf } from "./facts.ts";
import type { Reader } from "./reader.ts";
import { shellCall } from "./shell-turn.ts";
import { type CallResult, callResult, describeReply } from "./tool-results.ts";

export interface OpenCall {
  readonly part: ToolCallPart;
  /** Its name within the stream, and the id of its first exec. */
  readonly place: string;
  readonly plan: CallPlan;
  readonly step: number;
}

/** What can be said of a call now. */
export type Progress =
  | { readonly kind: "waiting" }
  | { readonly kind: "issue"; readonly execId: string; readonly plan: ExecPlan }
  | { readonly kind: "ask"; readonly questions: readonly Question[] }
  | { readonly kind: "over"; readonly result: CallResult };

const WAITING: Progress = { kind: "waiting" };
const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Of the last step, those that are not over. */
export function openCalls(facts: Facts, plans: Plans): readonly OpenCall[] {
  const { lastStep, found } = facts;
  if (lastStep === undefined) return [];
  const action = facts.request?.action?.action;
  const taken = found.conversation.open;
  const parts = action?.case === "shellCommandAction" ? [shellCall(action.value)] : (taken?.calls ?? []);
  const { step, started, over } = lastStep;
  return parts.flatMap((part, at): readonly OpenCall[] => {
    if (over.has(part.toolCallId)) return [];
    const place = started[at]?.execIds[0] ?? `${step}.unasked.${at}`;
    const plan = taken?.plans.get(at) ?? planAt(plans, isSummarizing(facts), part.tool, part.args, at);
    taken?.plans.set(at, plan);
    return [{ part, place, step, plan }];
  });
}

export function progressOf(facts: Facts, call: OpenCall, reader: Reader): Progress {
  const { plan, place } = call;
  switch (plan.kind) {
    case "invalid":
      return over("failed", plan.why);
    case "todos":
      return over("done", "The list is kept.");
    case "ask":
      return asking(facts, call, plan.questions);
    case "edit":
      return editing(facts, place, plan, reader);
    case "subagent":
      if ((facts.request?.subagentDepth ?? 0) >= LIMITS.subagentDepthMax) {
        return over("failed", `Subagents nest at most ${LIMITS.subagentDepthMax} deep: do this yourself.`);
      }
      return single(facts, place, plan, reader);
    case "exec":
    case "write":
    case "declared":
      return single(facts, place, plan, reader);
  }
}

/** With the execs that were asked for. */
export function overCall({ book }: Facts, { part, place }: OpenCall, result: CallResult): OverCall {
  return { part, result, execIds: [place, writeAfter(place)].filter((execId) => book.execs.has(execId)) };
}

function single(facts: Facts, execId: string, plan: ExecPlan, reader: Reader): Progress {
  const result = settled(facts, execId, reader);
  return result === undefined ? unsettled(facts, execId, plan) : { kind: "over", result };
}

/** The result of an exec that has its outcome. */
function settled(facts: Facts, execId: string, reader: Reader): CallResult | undefined {
  const reply = outcomeOf(facts, execId);
  if (reply === undefined) return undefined;
  return describeReply(reply, facts.pieces.get(execId) ?? [], (content) => reader.read(content));
}

/** What was issued is waited for, never issued again (C1). */
function unsettled(facts: Facts, execId: string, plan: ExecPlan): Progress {
  if (facts.book.execs.get(execId)?.stage === "issued") return WAITING;
  if (facts.cancelled !== undefined) return over("aborted", "The turn was stopped before this ran.");
  return { kind: "issue", execId, plan };
}

function editing(
  facts: Facts,
  read: string,
  { path, edits }: Extract<CallPlan, { kind: "edit" }>,
  reader: Reader,
): Progress {
  const write = writeAfter(read);
  const written = settled(facts, write, reader);
  if (written?.outcome === "done") return over("done", `Edited ${path}. ${written.text}`);
  if (written !== undefined) return { kind: "over", result: written };
  const found = settled(facts, read, reader);
  if (found === undefined)
    return unsettled(facts, read, { kind: "exec", message: { case: "readArgs", value: { path } } });
  const success = readSuccess(outcomeOf(facts, read));
  if (success === undefined) return { kind: "over", result: found };
  if (facts.book.execs.has(write)) return WAITING;
  const edited = editedText(reader.read(success.content), success, edits);
  if (typeof edited === "string") return over("failed", edited);
  return unsettled(facts, write, {
    kind: "write",
    path,
    text: edited.text,
    expectedSha256: success.sha256,
  });
}

function asking(facts: Facts, { step, part }: OpenCall, questions: readonly Question[]): Progress {
  const query = facts.queries.find((one) => one.step === step && one.toolCallId === part.toolCallId);
  const answer = query === undefined ? undefined : facts.answers.get(query.id);
  if (answer !== undefined) return { kind: "over", result: describeAnswer(answer) };
  if (facts.cancelled !== undefined) return over("aborted", "The turn was stopped before an answer came.");
  if (facts.isClosed) return over("failed", "There is nobody to ask.");
  return query === undefined ? { kind: "ask", questions } : WAITING;
}

function over(outcome: CallResult["outcome"], text: string): Progress {
  return { kind: "over", result: callResult(outcome, text) };
}

function readSuccess(reply: ExecReply | "unknown" | undefined): ReadSuccess | undefined {
  if (reply === undefined || reply === "unknown" || reply.kind === "throw") return undefined;
  const { message } = reply.reply;
  if (message.case !== "readResult" || message.value.result.case !== "success") return undefined;
  return message.value.result.value;
}

function editedText(
  bytes: Uint8Array,
  { truncated }: ReadSuccess,
  edits: readonly EditArgs[],
): { readonly text: string } | string {
  if (truncated) return "Nothing was changed: the file is too large to be edited in one piece.";
  let text: string;
  try {
    text = strictDecoder.decode(bytes);
  } catch {
    return "Nothing was changed: the file is not UTF-8 text.";
  }
  const edited = applyEdits(
    text,
    edits.map((edit) => ({ oldText: edit.old_text, newText: edit.new_text, all: edit.replace_all ?? false })),
  );
  return edited.kind === "failed" ? edited.why : { text: edited.text };
}

function describeAnswer({ response }: InteractionResponse): CallResult {
  switch (response.case) {
    case "askQuestion": {
      const lines = response.value.answers.map(({ questionId, optionIds, text }) => {
        const chosen = optionIds.length === 0 ? [] : [`option ${optionIds.join(", ")}`];
        return `${questionId}: ${[...chosen, ...(text === "" ? [] : [text])].join("; ")}`;
      });
      return callResult("done", lines.length === 0 ? "The user skipped the questions." : lines.join("\n"));
    }
    case "approval":
      return callResult("done", response.value.approved ? "yes" : `no ${response.value.reason}`.trim());
    case "unanswerable":
      return callResult("failed", `There is nobody to ask. ${response.value.reason}`.trim());
    case undefined:
      return callResult("failed", "The client answered with something that this server does not know.");
  }
}
