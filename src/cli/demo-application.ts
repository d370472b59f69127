/**
 * What `holdfast serve` runs: a demonstration, and nothing else. It counts and echoes; there is no
 * model behind it.
 *
 *     count to N [every M ms]    streams 1 to N
 *     tool <text>                asks the client's function tool `echo`, and says what it answered
 *     anything else              comes back, word by word
 *
 * Its one idea: all it says is a script that follows from what the client said, so the length of
 * the event log tells how far it got. A restarted run skips that much and goes on; nothing is
 * said twice, and the exec is asked once (B1, C0).
 */
import type { Application, ApplicationStream, ClientInput } from "../server/application.ts";
import * as words from "./demo-messages.ts";

/** A restarted run goes through the script from its beginning: this many take a moment, not seconds. */
const COUNT_MAX = 100_000;
const PAUSE_MS_MAX = 60_000;
/** Events accepted without waiting for the disk, so that they share commits. */
const UNAWAITED_MAX = 200;
/** A piece of an echo: far below an event's limit, whatever was sent. */
const PIECE_CHARS_MAX = 4_096;
/** The exec's arguments stay below what may be said inline. */
const ARGUMENT_CHARS_MAX = 8_192;

/** The exec's event id: the scripts with a tool begin alike, so a takeover tells its fate at once. */
const EXEC_EVENT = 5;

const ABANDONED: words.Outcome = { kind: "unknown", text: "the client that was asked is gone" };

export const demoApplication: Application = (stream) => new DemoTurn(stream).run();

class DemoTurn {
  readonly #stream: ApplicationStream;
  #request: words.Request | undefined;
  #outcome: words.Outcome | undefined;
  #ending: "cancelled" | "over" | { readonly why: string } | undefined;
  /** Ends the pause under way. */
  #wake: (() => void) | undefined;
  #isHeard = Promise.withResolvers<void>();

  constructor(stream: ApplicationStream) {
    this.#stream = stream;
  }

  async run(): Promise<void> {
    let said = 0;
    for await (const event of this.#stream.past()) said = event.eventId;
    void this.#listen();
    await this.#until(() => this.#request !== undefined);
    if (this.#request !== undefined) await this.#perform(this.#request, said);
    await this.#stream.end(this.#lastWord(), typeof this.#ending === "object" ? "failed" : "completed");
  }

  #lastWord(): Uint8Array {
    if (typeof this.#ending === "object") return words.turnFailed(this.#ending.why);
    const isAborted = this.#stream.signal.aborted || this.#ending === "cancelled";
    return isAborted ? words.turnAborted() : words.turnEnded();
  }

  #isStopped(): boolean {
    return this.#stream.signal.aborted || this.#ending === "cancelled" || typeof this.#ending === "object";
  }

  /** Says what of the script is not in the log yet. */
  async #perform(request: words.Request, alreadySaid: number): Promise<void> {
    const pauseMs = pauseOf(request.text);
    let place = 0;
    let last: Promise<number> | undefined;
    for await (const body of this.#script(request)) {
      place++;
      if (place <= alreadySaid) continue;
      if (this.#isStopped()) return;
      last = this.#stream.emit(body);
      if (pauseMs > 0 || place % UNAWAITED_MAX === 0) await last;
      if (pauseMs > 0) await this.#pause(pauseMs);
    }
    await last;
  }

  async *#script(request: words.Request): AsyncGenerator<Uint8Array> {
    yield words.stepStarted(0);
    const argument = /^tool\b\s*(?<argument>.*)$/is.exec(request.text)?.groups?.["argument"];
    const asksTool = argument !== undefined && request.hasTool;
    if (asksTool) {
      const argsJson = JSON.stringify({ text: argument.slice(0, ARGUMENT_CHARS_MAX) });
      yield words.textDelta(`Asking the tool "${words.TOOL}". `);
      yield words.toolCallStarted(argsJson);
      yield words.stepCompleted(0, true);
      yield words.execRequest(argsJson);
      const outcome = await this.#outcomeOfExec();
      if (outcome === undefined) return;
      yield words.toolCallCompleted(argsJson, outcome);
      yield words.stepStarted(1);
      for (const piece of inPieces(`The tool's outcome is "${outcome.kind}": ${outcome.text}`)) {
        yield words.textDelta(piece);
      }
    } else {
      for (const piece of answerTo(request)) yield words.textDelta(piece);
    }
    yield words.stepCompleted(asksTool ? 1 : 0, false);
  }

  async #outcomeOfExec(): Promise<words.Outcome | undefined> {
    await this.#until(() => this.#outcome !== undefined);
    return this.#outcome;
  }

  /** Waits for something heard, or for the end of everything. */
  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo() && !this.#isStopped() && this.#ending === undefined) await this.#isHeard.promise;
  }

  async #listen(): Promise<void> {
    try {
      for await (const input of this.#stream.inputs) this.#hear(input);
      this.#ending ??= "over";
    } catch {
      // The host has lost the stream and says so by the signal.
      this.#ending ??= "cancelled";
    }
    this.#isHeard.resolve();
  }

  #hear(input: ClientInput): void {
    if (input.kind === "chunk") this.#hearChunk(input.seqno, input.body);
    // Nobody will answer any more: the one who was asked is gone (D2), or has said everything.
    else if (input.kind === "close" || input.sinceEvent >= EXEC_EVENT) this.#outcome ??= ABANDONED;
    if (this.#isStopped()) this.#wake?.();
    const { resolve } = this.#isHeard;
    this.#isHeard = Promise.withResolvers<void>();
    resolve();
  }

  #hearChunk(seqno: number, body: Uint8Array): void {
    const heard = words.readChunk(body);
    switch (heard.kind) {
      case "request":
        if (seqno === 0) this.#request = heard.request;
        else this.#ending ??= { why: "a second request in one stream" };
        break;
      case "outcome":
        this.#outcome ??= heard.outcome;
        break;
      case "cancel":
        this.#ending ??= "cancelled";
        break;
      case "invalid":
        this.#ending ??= { why: heard.why };
        break;
      case "nothing":
        break;
    }
    if (seqno === 0 && this.#request === undefined) this.#ending ??= { why: "chunk 0 is not a RunRequest" };
  }

  #pause(pauseMs: number): Promise<void> {
    const { signal } = this.#stream;
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, pauseMs);
      signal.addEventListener("abort", done, { once: true });
      this.#wake = done;
    });
  }
}

const COUNT = /^count\s+to\s+(?<count>\d{1,7})(?:\s+every\s+(?<pauseMs>\d{1,5})\s*ms)?[.!]?$/i;

function pauseOf(text: string): number {
  return Math.min(Number(COUNT.exec(text.trim())?.groups?.["pauseMs"] ?? 0), PAUSE_MS_MAX);
}

function* answerTo({ text }: words.Request): Generator<string> {
  const count = COUNT.exec(text.trim())?.groups?.["count"];
  if (count !== undefined) {
    const last = Math.min(Number(count), COUNT_MAX);
    for (let number = 1; number <= last; number++) yield `${number} `;
  } else if (/^tool\b/i.test(text)) {
    yield* inPieces(`Declare a function tool named "${words.TOOL}" in the request, and it will be asked.`);
  } else {
    yield* inPieces(text);
  }
}

/** Words with the space behind them, cut where they are too long for an event. */
function inPieces(text: string): readonly string[] {
  const pieces = text.match(new RegExp(`\\S{1,${PIECE_CHARS_MAX}}\\s{0,16}|\\s{1,${PIECE_CHARS_MAX}}`, "gu"));
  return pieces ?? [];
}
