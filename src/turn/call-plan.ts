/**
 * What a tool call of the model asks for, once its arguments are known to be right.
 */
import type { MessageInitShape } from "../protocol/message.ts";
import type { ExecServerMessageSchema } from "../protocol/messages.ts";

/** What an exec asks for: the kind and its arguments. */
export type ExecMessage = NonNullable<MessageInitShape<typeof ExecServerMessageSchema>["message"]>;

/** One entry of the list that the model keeps. */
export interface Todo {
  readonly id: string;
  readonly text: string;
  readonly status: "pending" | "in_progress" | "completed" | "cancelled";
}

export interface EditArgs {
  readonly old_text: string;
  readonly new_text: string;
  readonly replace_all?: boolean | undefined;
}

export interface Question {
  readonly text: string;
  readonly options?: readonly string[] | undefined;
  readonly allow_multiple?: boolean | undefined;
}

/** A call that is one exec. What it carries may be too large for an event: the driver puts it into a blob then. */
export type ExecPlan =
  | { readonly kind: "exec"; readonly message: ExecMessage }
  | {
      readonly kind: "write";
      readonly path: string;
      readonly text: string;
      /** The write holds only for this content (an edit). */
      readonly expectedSha256?: Uint8Array;
    }
  | {
      readonly kind: "subagent";
      readonly args: {
        readonly description: string;
        readonly prompt: string;
        readonly model?: string | undefined;
        readonly read_only?: boolean | undefined;
      };
    }
  | { readonly kind: "declared"; readonly name: string; readonly server: string; readonly args: string };

export type CallPlan =
  | ExecPlan
  /** Reads the file; the write follows from what is in it. */
  | { readonly kind: "edit"; readonly path: string; readonly edits: readonly EditArgs[] }
  | { readonly kind: "todos"; readonly todos: readonly Todo[] }
  | { readonly kind: "ask"; readonly questions: readonly Question[] }
  | { readonly kind: "invalid"; readonly why: string };

/** The tools of a turn, as far as its decisions depend on them. */
export interface Plans {
  readonly hasBuiltIns: boolean;
  /** Always an answer, whatever the model made up. */
  plan(tool: string, args: string): CallPlan;
}

/** Calls of one step: with them a turn still has fewer execs than the book of execs keeps results of. */
const CALLS_MAX = 256;

/** What the call at this place among those of its step asks for. */
export function planAt(
  plans: Plans,
  isSummarizing: boolean,
  tool: string,
  args: string,
  at: number,
): CallPlan {
  if (isSummarizing) return { kind: "invalid", why: "There are no tools now: answer with the summary." };
  if (at < CALLS_MAX) return plans.plan(tool, args);
  const why = `A step has at most ${CALLS_MAX} calls: ask for the rest in the next one.`;
  return { kind: "invalid", why };
}

/** The others are answered by the server itself, or by the user. */
export function needsExec({ kind }: CallPlan): boolean {
  return kind !== "invalid" && kind !== "todos" && kind !== "ask";
}
