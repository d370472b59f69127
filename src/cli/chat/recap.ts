/**
 * How a conversation stood: a few lines of its last turn, so that a person knows where they are.
 */
import type { Conversation, FullAgentTurn, FullConversation, TodoView } from "../../client/index.ts";
import { counted } from "../terminal.ts";
import { safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { cutToWidth } from "./text-width.ts";

const TEXT_LINES_MAX = 6;

export async function recapLines(conversation: Conversation, style: Style): Promise<readonly string[]> {
  const { turns, summary } = await conversation.full();
  const last = turns.at(-1);
  const earlier = turns.length - 1;
  return [
    ...(summary === undefined ? [] : [style.dim("… a summary of what was said before …")]),
    ...(earlier > 0 ? [style.dim(`… ${counted(earlier, "earlier turn")} …`)] : []),
    ...(last === undefined ? [] : turnLines(last, style)),
  ];
}

function turnLines(turn: FullConversation["turns"][number], style: Style): readonly string[] {
  switch (turn.kind) {
    case "missing":
      return [style.yellow("(the last turn is not on this machine)")];
    case "shell":
      return turn.command.kind === "found"
        ? [style.cyan(`! ${oneLine(turn.command.value.command, style)}`)]
        : [style.cyan("! (a command that is not on this machine)")];
    case "agent": {
      const { userMessage } = turn;
      const said =
        userMessage?.kind === "found" ? [style.cyan(`› ${oneLine(userMessage.value.text, style)}`)] : [];
      return [...said, ...lastLines(lastTextOf(turn.steps), style)];
    }
  }
}

function lastTextOf(steps: FullAgentTurn["steps"]): string {
  for (const step of steps.toReversed()) {
    if (step.kind === "found" && step.value.case === "assistantMessage") return step.value.value.text;
  }
  return "";
}

function lastLines(text: string, { dim }: Style): readonly string[] {
  if (text.trim() === "") return [];
  const lines = safeText(text.trim()).split("\n");
  const shown = lines.slice(-TEXT_LINES_MAX);
  return [...(shown.length < lines.length ? ["…"] : []), ...shown].map((line) => dim(line));
}

function oneLine(text: string, style: Style): string {
  const [first = "", ...more] = safeText(text.trim()).split("\n");
  return cutToWidth(more.length === 0 ? first : `${first} …`, style.columns() - 3);
}

export async function todosOfConversation(
  conversation: Conversation,
): Promise<readonly Pick<TodoView, "text" | "status">[]> {
  const { todos } = await conversation.full();
  return todos.flatMap((todo) => (todo.kind === "found" ? [todo.value] : []));
}
