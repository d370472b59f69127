/**
 * What has happened so far, as the clients reported it: each life of the client, what the screen shows, which tools ran.
 *
 * A killed client starts anew and hears again what it had no snapshot of. The screen does not repeat it: it shows
 * what is new. The lives keep everything, as it came, for the proof.
 */
import { decodeServer, updateOf } from "../../turn/messages.ts";
import { outcomeName } from "../../turn/tool-outcome.ts";
import type { News } from "./news.ts";

type Heard = Pick<Extract<News, { kind: "heard" }>, "eventId" | "body">;

export interface Run {
  readonly execId: string;
  readonly tool: string;
  readonly about: string;
  isOver: boolean;
}

/** One client process, from its start to its death. */
export interface Life {
  readonly pid: number;
  /** It continues after this event; -1 before it follows the turn. */
  cursor: number;
  isKilled: boolean;
  /** It has heard something that no life before it had. */
  isCaughtUp: boolean;
  readonly heard: Heard[];
  readonly runs: Run[];
}

/** What a person would see of a piece of news. */
export type Sight =
  | { readonly kind: "piece"; readonly text: string }
  | { readonly kind: "tool_over"; readonly tool: string; readonly outcome: string; readonly about: string }
  | { readonly kind: "runs"; readonly tool: string; readonly about: string }
  | { readonly kind: "goes_on"; readonly cursor: number }
  | { readonly kind: "caught_up"; readonly first: number; readonly last: number }
  | { readonly kind: "state"; readonly state: string; readonly why: string };

export class Story {
  readonly lives: Life[] = [];
  /** How each exec's tool call ended. */
  readonly outcomes = new Map<string, string>();
  /** Of the turn's stream; empty before a client follows it. */
  name = "";
  step = -1;
  /** What the screen shows of the step under way. */
  stepText = "";
  state = "";
  shownThrough = 0;
  over: Extract<News, { kind: "over" }> | undefined;
  /** What the living client has heard of the step under way. */
  #lifeText = "";

  get life(): Life | undefined {
    return this.lives.at(-1);
  }

  isBorn(pid: number): void {
    this.lives.push({ pid, cursor: -1, isKilled: false, isCaughtUp: false, heard: [], runs: [] });
    this.state = "";
  }

  isKilled(): void {
    if (this.life !== undefined) this.life.isKilled = true;
  }

  /** What there is to see of it. */
  take(news: News): readonly Sight[] {
    const { life } = this;
    if (life === undefined) return [];
    switch (news.kind) {
      case "follows":
        this.name = news.name;
        life.cursor = news.cursor;
        this.#lifeText = news.stepText;
        return this.lives.length === 1 ? [] : [{ kind: "goes_on", cursor: news.cursor }];
      case "state":
        this.state = news.state;
        return [{ kind: "state", state: news.state, why: news.why }];
      case "runs": {
        const { execId, tool, about } = news;
        life.runs.push({ execId, tool, about, isOver: false });
        return [{ kind: "runs", tool, about }];
      }
      case "ran": {
        const run = life.runs.find(({ execId }) => execId === news.execId);
        if (run !== undefined) run.isOver = true;
        return [];
      }
      case "over":
        this.over = news;
        return [];
      case "heard":
        return this.#hear(life, news);
    }
  }

  #hear(life: Life, { eventId, body }: Heard): readonly Sight[] {
    const isNew = eventId > this.shownThrough;
    const caughtUp = isNew ? this.#caughtUp(life) : [];
    life.heard.push({ eventId, body });
    this.shownThrough = Math.max(this.shownThrough, eventId);
    return [...caughtUp, ...this.#see(Buffer.from(body, "base64"), isNew)];
  }

  /** Shown at the first event that is new to the screen. */
  #caughtUp(life: Life): readonly Sight[] {
    const { cursor, isCaughtUp } = life;
    life.isCaughtUp = true;
    if (isCaughtUp || this.shownThrough <= cursor) return [];
    return [{ kind: "caught_up", first: cursor + 1, last: this.shownThrough }];
  }

  #see(body: Uint8Array, isNew: boolean): readonly Sight[] {
    const update = updateOf(decodeServer(body));
    switch (update.case) {
      case "textDelta": {
        this.#lifeText += update.value.text;
        const text = this.#lifeText.slice(this.stepText.length);
        if (text === "") return [];
        this.stepText = this.#lifeText;
        return [{ kind: "piece", text }];
      }
      case "stepStarted":
      case "stepRestarted": {
        this.#lifeText = "";
        if (!isNew) return [];
        this.step = update.value.step;
        this.stepText = "";
        return [];
      }
      case "toolCallCompleted": {
        const call = update.value.toolCall;
        if (call === undefined) return [];
        const { tool, execIds } = call;
        const outcome = outcomeName(call.outcome) ?? "unknown";
        for (const execId of execIds) this.outcomes.set(execId, outcome);
        return isNew ? [{ kind: "tool_over", tool, outcome, about: this.#aboutOf(execIds) }] : [];
      }
      default:
        return [];
    }
  }

  #aboutOf(execIds: readonly string[]): string {
    const runs = this.lives.flatMap((life) => life.runs);
    return runs.find(({ execId }) => execIds.includes(execId))?.about ?? "";
  }
}
