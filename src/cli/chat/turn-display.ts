/**
 * Shows one turn from where it stands to its end: a thin driver between the turn, the transcript and the screen.
 *
 * What came before is shown in short, everything after it as it comes, in one piece: the view is read and the listener set in
 * the same moment, so nothing is missed and nothing is shown twice.
 */
import type { LiveState, TodoView, Turn, TurnEnd, TurnPart } from "../../client/index.ts";
import type { LineInput } from "./line-input.ts";
import type { TurnScreen } from "./screen.ts";
import { CONTINUED, newActivity, plainStatusLine, type ShownStatus, troubleText } from "./status-text.ts";
import type { Style } from "./style.ts";
import { newTranscript } from "./transcript.ts";
import { recentParts, watchParts } from "./recent-parts.ts";

interface DisplayOptions {
  readonly screen: TurnScreen;
  readonly style: Style;
  readonly input: LineInput;
  readonly hasStatusLine: boolean;
  readonly showsThinking: boolean;
  /** What the user has just typed; undefined when the turn began before. */
  readonly typed: string | undefined;
  readonly now: () => number;
  /** A line that was entered while the turn runs. */
  readonly onLine: (text: string) => void;
  readonly onInterrupt: () => void;
  /** Ctrl-D. */
  readonly onLeave: () => void;
  readonly onStatus: (status: ShownStatus) => void;
  /** Everything that is shown, after it is. */
  readonly onShown: (part: TurnPart) => void;
  /** Whether the list of todos is another one than the last that was shown. */
  readonly isNews: (todos: readonly TodoView[]) => boolean;
}

/** What the status line says instead, after the first Ctrl-C. */
const STOPPING = "stopping …  (Ctrl-C again leaves at once)";
const TICK_MS = 1_000;

/** Resolves when the turn is over and everything of it is on the screen. */
export async function showTurn(turn: Turn, options: DisplayOptions): Promise<TurnEnd> {
  const { screen, input, hasStatusLine, onLine, onLeave, onStatus } = options;
  const activity = newActivity();
  let typing = "";
  let state: LiveState = "connecting";
  let isStopping = false;
  let hasText = false;
  const startedMs = options.now();
  const transcript = newTranscript(options);

  function interrupt(): void {
    isStopping = true;
    refresh();
    options.onInterrupt();
  }

  function watchTurn(): () => void {
    const { view } = turn;
    if (view.eventId > 0) for (const part of recentParts(view)) show(part);
    return watchParts(turn, (parts) => {
      for (const part of parts) {
        if (part.type !== "todos" || options.isNews(part.items)) show(part);
      }
      refresh();
    });
  }

  function show(part: TurnPart): void {
    if (part.type === "text") hasText = true;
    if (part.type === "continued" && !hasStatusLine) screen.note(`[${CONTINUED}]`);
    activity.see(part);
    screen.write(transcript.render(part));
    options.onShown(part);
  }

  function showEnd(end: TurnEnd): void {
    const { step } = turn.view;
    if (!hasText && end.text !== "") show({ type: "text", step, text: end.text });
    show({ type: "end", end });
  }

  function showStatus(status: ShownStatus): void {
    const line = hasStatusLine ? undefined : plainStatusLine(state, status);
    state = status.state;
    if (line !== undefined) screen.note(line);
    refresh();
  }

  function refresh(): void {
    if (hasStatusLine) screen.status(statusLine());
  }

  function statusLine(): string {
    const trouble = troubleText(turn.stream.status);
    if (isStopping) return trouble === undefined ? STOPPING : `${STOPPING} · ${trouble}`;
    if (trouble !== undefined) return trouble;
    if (typing !== "") return `› ${typing.replaceAll("\n", "⏎")}  (Enter: for the next step)`;
    const seconds = Math.floor((options.now() - startedMs) / 1_000);
    return `${activity.text} · ${seconds} s · Ctrl-C stops`;
  }

  const unwatchTurn = watchTurn();
  const unwatchStream = turn.stream.watch((status) => {
    showStatus(status);
    onStatus(status);
  });
  showStatus(turn.stream.status);
  const timer = setInterval(refresh, TICK_MS);
  input.listen({
    onLine,
    onInterrupt: interrupt,
    onEnd: onLeave,
    onEdit: (text) => {
      typing = text;
      refresh();
    },
  });
  try {
    const end = await turn.ended;
    // The person has left, and the turn has not ended.
    if (end.reason !== "left") showEnd(end);
    return end;
  } finally {
    clearInterval(timer);
    unwatchStream();
    unwatchTurn();
    input.listen(undefined);
    screen.status(undefined);
  }
}
