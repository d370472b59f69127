/**
 * Shows one turn from where it stands to its end: a thin driver between the turn, the transcript and the screen.
 *
 * What came before is told from the turn's view, everything after it from the events, in one piece: the
 * view is read and the listener set in the same moment, so nothing is missed and nothing is shown twice.
 */
import type { LiveState, Turn, TurnEnd, TurnView } from "../../client/index.ts";
import type { AgentServerMessage } from "../../protocol/messages.ts";
import { failureWord, type Happening, happeningOf, type Todo } from "./happening.ts";
import type { LineInput } from "./line-input.ts";
import type { TurnScreen } from "./screen.ts";
import { Activity, plainStatusLine, type ShownStatus, troubleText } from "./status-text.ts";
import type { Style } from "./style.ts";
import { Transcript } from "./transcript.ts";
import { happeningsOfView, todosOf } from "./view-happenings.ts";

export interface DisplayOptions {
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
  readonly onShown: (happening: Happening) => void;
  /** Whether the list of todos is another one than the last that was shown. */
  readonly isNews: (todos: readonly Todo[]) => boolean;
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
  #todos: TurnView["todos"];

  constructor(turn: Turn, options: DisplayOptions) {
    this.#turn = turn;
    this.#options = options;
    this.#startedMs = options.now();
    this.#transcript = new Transcript(options);
    this.#todos = turn.view.todos;
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
    const { view } = this.#turn;
    // Before the first event there is only what the user said, and that comes as an event as well.
    if (view.eventId > 0) for (const happening of happeningsOfView(view)) this.#show(happening);
    return this.#turn.watch((next, heard) => {
      if (heard !== undefined) this.#hear(next, heard.message);
    });
  }

  #hear(view: TurnView, { message }: AgentServerMessage): void {
    const happening = message.case === "interactionUpdate" ? happeningOf(message.value) : undefined;
    const todos = view.todos === this.#todos ? undefined : todosOf(view);
    if (todos !== undefined) {
      this.#todos = view.todos;
      if (this.#options.isNews(todos)) this.#show({ kind: "todos", items: todos });
    }
    // The end is told by `ended`, once everything is safe.
    if (happening !== undefined && happening.kind !== "ended") this.#show(happening);
    this.#refresh();
  }

  #show(happening: Happening): void {
    if (happening.kind === "text") this.#hasText = true;
    this.#activity.see(happening);
    this.#options.screen.write(this.#transcript.render(happening));
    this.#options.onShown(happening);
  }

  #showEnd(end: TurnEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (!this.#hasText && end.text !== "") this.#show({ kind: "text", text: end.text });
    this.#show(endHappening(end));
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

function endHappening({ reason, failure, usage, error }: TurnEnd): Happening {
  switch (reason) {
    case "completed":
    case "aborted":
      return { kind: "ended", reason, failure: undefined, usage };
    case "failed": {
      const told =
        failure === undefined
          ? undefined
          : { kind: failureWord(failure.kind), message: failure.message, retryAfterMs: failure.retryAfterMs };
      return { kind: "ended", reason, failure: told, usage };
    }
    case "lost":
    case "left": {
      const kind = error?.code ?? "connection_lost";
      const message = error?.message ?? "this client has let go of the turn";
      return { kind: "ended", reason: "failed", failure: { kind, message, retryAfterMs: undefined }, usage };
    }
  }
}
