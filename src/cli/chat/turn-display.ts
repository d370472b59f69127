/**
 * Shows one turn from where it stands to its end: a thin driver between the turn, the transcript and the screen.
 *
 * What came before is shown in short, everything after it as it comes, in one piece: the view is read and the listener set in
 * the same moment, so nothing is missed and nothing is shown twice.
 */
import type { LiveState, TodoView, Turn, TurnEnd, TurnPart } from "../../client/index.ts";
import { partsBetween } from "../../turn/parts.ts";
import { EMPTY_VIEW } from "../../turn/view.ts";
import type { LineInput } from "./line-input.ts";
import type { TurnScreen } from "./screen.ts";
import { Activity, plainStatusLine, type ShownStatus, troubleText } from "./status-text.ts";
import type { Style } from "./style.ts";
import { Transcript } from "./transcript.ts";
import { recentParts } from "./recent-parts.ts";

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

export class TurnDisplay {
  readonly #turn: Turn;
  readonly #options: DisplayOptions;
  readonly #transcript: Transcript;
  readonly #activity = new Activity();
  readonly #startedMs: number;
  #typing = "";
  #state: LiveState = "connecting";
  #isStopping = false;
  #hasText = false;
  #hasEnded = false;

  constructor(turn: Turn, options: DisplayOptions) {
    this.#turn = turn;
    this.#options = options;
    this.#startedMs = options.now();
    this.#transcript = new Transcript(options);
  }

  /** Resolves when the turn is over and everything of it is on the screen. */
  async run(): Promise<TurnEnd> {
    const { input, screen, onLine, onLeave, onStatus } = this.#options;
    const unwatchTurn = this.#watchTurn();
    const unwatchStream = this.#turn.stream.watch((status) => {
      this.#showStatus(status);
      onStatus(status);
    });
    this.#showStatus(this.#turn.stream.status);
    const timer = setInterval(() => this.#refresh(), TICK_MS);
    input.listen({
      onLine,
      onInterrupt: () => this.interrupt(),
      onEnd: onLeave,
      onEdit: (text) => {
        this.#typing = text;
        this.#refresh();
      },
    });
    try {
      const end = await this.#turn.ended;
      // The person has left, and the turn has not ended.
      if (end.reason !== "left") this.#showEnd(end);
      return end;
    } finally {
      clearInterval(timer);
      unwatchStream();
      unwatchTurn();
      input.listen(undefined);
      screen.status(undefined);
    }
  }

  interrupt(): void {
    this.#isStopping = true;
    this.#refresh();
    this.#options.onInterrupt();
  }

  #watchTurn(): () => void {
    let { view } = this.#turn;
    // Before the first event there is only what the user said: it is shown with that event.
    if (view.eventId === 0) view = EMPTY_VIEW;
    else for (const part of recentParts(view)) this.#show(part);
    return this.#turn.watch((next, heard) => {
      const parts = partsBetween(view, next, heard?.message);
      view = next;
      for (const part of parts) {
        if (part.kind !== "todos" || this.#options.isNews(part.items)) this.#show(part);
      }
      this.#refresh();
    });
  }

  #show(part: TurnPart): void {
    if (part.kind === "text") this.#hasText = true;
    this.#activity.see(part);
    this.#options.screen.write(this.#transcript.render(part));
    this.#options.onShown(part);
  }

  #showEnd(end: TurnEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { step } = this.#turn.view;
    if (!this.#hasText && end.text !== "") this.#show({ kind: "text", step, text: end.text });
    this.#show({ kind: "end", end });
  }

  #showStatus(status: ShownStatus): void {
    const { hasStatusLine, screen } = this.#options;
    const line = hasStatusLine ? undefined : plainStatusLine(this.#state, status);
    this.#state = status.state;
    if (line !== undefined) screen.note(line);
    this.#refresh();
  }

  #refresh(): void {
    const { hasStatusLine, screen } = this.#options;
    if (hasStatusLine) screen.status(this.#statusLine());
  }

  #statusLine(): string {
    const trouble = troubleText(this.#turn.stream.status);
    if (this.#isStopping) return trouble === undefined ? STOPPING : `${STOPPING} · ${trouble}`;
    if (trouble !== undefined) return trouble;
    if (this.#typing !== "") return `› ${this.#typing.replaceAll("\n", "⏎")}  (Enter: for the next step)`;
    const seconds = Math.floor((this.#options.now() - this.#startedMs) / 1_000);
    return `${this.#activity.text} · ${seconds} s · Ctrl-C stops`;
  }
}
