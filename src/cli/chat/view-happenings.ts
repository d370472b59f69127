/**
 * A turn that began before this process did, told as if it happened now: what was said and done so far, in short.
 *
 * Of long texts only the end is told: the reader was there when they came. Calls that still run stay open, so that what
 * comes live goes on where this ends.
 */
import type { ToolView, TurnView, UserMessageView, ViewPart } from "../../client/index.ts";
import { TodoStatus } from "../../protocol/messages.ts";
import type { Happening, Todo } from "./happening.ts";

const PARTS_MAX = 8;
const TEXT_CHARS_MAX = 1_500;

export function happeningsOfView(view: TurnView): readonly Happening[] {
  const [first] = view.userMessages;
  const shown = view.parts.slice(-PARTS_MAX);
  const omitted = view.parts.length - shown.length;
  return [
    ...userHappening(first),
    ...(view.step < 0 ? [] : [{ kind: "step_started", step: view.step, model: view.model } as const]),
    ...(omitted === 0
      ? []
      : [{ kind: "thinking", text: `… ${omitted} earlier parts of this turn …\n` } as const]),
    ...shown.flatMap(happeningsOfPart),
  ];
}

function userHappening(message: UserMessageView | undefined): readonly Happening[] {
  return message === undefined ? [] : [{ kind: "user", text: message.text }];
}

function happeningsOfPart(part: ViewPart): readonly Happening[] {
  switch (part.kind) {
    case "text":
    case "thinking":
      return [{ kind: part.kind, text: ending(part.text) }];
    case "user":
      return [{ kind: "user", text: part.text }];
    case "tool":
      return happeningsOfTool(part);
  }
}

function happeningsOfTool({
  toolCallId,
  tool,
  args,
  state,
  outcome,
  result,
  ...view
}: ToolView): readonly Happening[] {
  if (state === "writing") return [];
  const { execIds, output, progress } = view;
  const execId = execIds[0] ?? "";
  const bytes = new TextEncoder().encode(ending(output));
  return [
    { kind: "tool_started", toolCallId, tool, args, execIds },
    ...(output === "" ? [] : [{ kind: "output", execId, bytes, stream: "stdout" } as const]),
    ...progress.map((text): Happening => ({ kind: "progress", toolCallId, text })),
    ...(state === "over"
      ? [
          {
            kind: "tool_ended",
            toolCallId,
            tool,
            outcome: outcome ?? "unknown",
            result: result ?? "",
          } as const,
        ]
      : []),
  ];
}

function ending(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `… ${text.slice(-TEXT_CHARS_MAX)}`;
}

/** Undefined while a todo is known by its blob id only. */
export function todosOf({ todos }: Pick<TurnView, "todos">): readonly Todo[] | undefined {
  const items = todos.map(({ item }) => item).filter((item) => item !== undefined);
  if (items.length < todos.length) return undefined;
  return items.map(({ text, status }) => ({ text, status: todoStatus(status) }));
}

export function todoStatus(status: TodoStatus): Todo["status"] {
  switch (status) {
    case TodoStatus.IN_PROGRESS:
      return "in_progress";
    case TodoStatus.COMPLETED:
      return "completed";
    case TodoStatus.CANCELLED:
      return "cancelled";
    default:
      return "pending";
  }
}
