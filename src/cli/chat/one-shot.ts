/**
 * `-p`: one message, one answer, for scripts. The answer alone is printed, or with `--json` everything that happens.
 *
 * On a pipe the text comes when it is whole: a step that begins anew takes back what it said, and what is printed cannot be
 * taken back. On a terminal it is streamed.
 */
import type { Conversation, Turn, TurnEnd, TurnPart } from "../../client/index.ts";
import type { HoldfastError } from "../../protocol/errors.ts";
import { given } from "../../protocol/given.ts";
import type { Screen } from "../terminal.ts";
import type { ChatSettings } from "./chat-flags.ts";
import { choose, titleFrom } from "./conversation-list.ts";
import { EXIT_DENIED, EXIT_DONE, EXIT_INTERRUPTED, EXIT_NO_SERVER, EXIT_TURN_FAILED } from "./exit-codes.ts";
import { jsonLine, jsonOf, jsonStatus, type Result } from "./json-line.ts";
import { watchParts } from "./recent-parts.ts";
import { safeLine, safeText } from "./safe-text.ts";
import type { ServerLink } from "./server-link.ts";
import type { Session } from "./session.ts";
import { CONTINUED, plainStatusLine } from "./status-text.ts";
import { restartLine } from "./transcript.ts";
import { failureLine, failureOf, SCRIPT_REMEDIES } from "./turn-end-text.ts";

interface OneShotOptions {
  readonly settings: ChatSettings;
  readonly session: Session;
  readonly link: ServerLink;
  readonly prompt: string;
  readonly stdout: Screen;
  readonly note: (line: string) => void;
  readonly now: () => number;
  /** Called with the turn under way, for Ctrl-C. */
  readonly onTurn: (turn: Turn | undefined) => void;
  /** How long a server may stay out of reach before the command gives up. */
  readonly connectMsMax: number;
}

/** Resolves with the exit code. */
export async function oneShot(options: OneShotOptions): Promise<number> {
  const { settings, prompt } = options;
  const conversation = await conversationOf(options);
  if (conversation.record.turn !== undefined) {
    options.note("A turn of this conversation was cut off; it is ended first.");
    const before = await conversation.resume();
    const end = before === undefined ? undefined : await shoot(before, options);
    if (end?.exitCode === EXIT_NO_SERVER) return report(end, conversation, options);
  }
  const model = settings.model === "" ? {} : { model: settings.model };
  const turn = await conversation.send({ text: prompt }, model);
  return report(await shoot(turn, options), conversation, options);
}

async function conversationOf({ settings, session, prompt }: OneShotOptions): Promise<Conversation> {
  const { conversations } = session;
  const { begin, systemPrompt, model } = settings;
  const records = begin === "ask" ? [] : await conversations.list();
  const [latest] = records;
  if (typeof begin === "object")
    return conversations.open(choose(records, begin.conversation).conversationId);
  if (latest !== undefined) return conversations.open(latest.conversationId);
  return conversations.begin({
    title: titleFrom(prompt),
    ...(model === "" ? {} : { model }),
    ...given({ systemPrompt }),
  });
}

interface Shown {
  readonly end: TurnEnd;
  readonly exitCode: number;
  readonly model: string;
  readonly durationMs: number;
  readonly hasStreamed: boolean;
}

async function shoot(turn: Turn, options: OneShotOptions): Promise<Shown> {
  const { settings, stdout, note, link, onTurn, connectMsMax } = options;
  let hasDenied = false;
  let hasStreamed = false;
  let isOutOfReach = false;
  const startedMs = options.now();

  function watchTurn(): () => void {
    return watchParts(turn, (parts) => {
      for (const part of parts) {
        if (part.type === "tool" && part.call.outcome === "denied") {
          hasDenied = true;
          note(`holdfast: ${safeLine(part.call.result ?? "a tool was denied")}`);
        }
        const json = settings.isJson ? jsonOf(part) : undefined;
        if (json !== undefined) stdout.write(jsonLine(json));
        if (!settings.isJson && stdout.isTTY === true) stream(part);
        if (!settings.isJson && part.type === "continued") note(`[${CONTINUED}]`);
      }
    });
  }

  /** On a terminal, as it comes. Printed text of a step cannot be taken back, so a line says that it does not count. */
  function stream(part: TurnPart): void {
    if (part.type === "text") {
      hasStreamed = true;
      stdout.write(safeText(part.text));
    }
    if (part.type === "retract" && part.text !== "") stdout.write(`\n${restartLine(turn.view.attempt)}\n\n`);
  }

  function watchStatus(): () => void {
    let state = turn.stream.status.state;
    return turn.stream.watch((status) => {
      const line = plainStatusLine(state, status);
      state = status.state;
      if (settings.isJson) stdout.write(jsonLine(jsonStatus(status)));
      else if (line !== undefined) note(line);
      if (state === "reconnecting" || state === "connecting") void link.lookAfter();
    });
  }

  function exitCode({ reason, error }: TurnEnd): number {
    switch (reason) {
      case "completed":
        return hasDenied ? EXIT_DENIED : EXIT_DONE;
      case "aborted":
        return EXIT_INTERRUPTED;
      case "failed":
        return EXIT_TURN_FAILED;
      case "lost":
      case "left":
        return isOutOfReach || isRefusal(error) ? EXIT_NO_SERVER : EXIT_TURN_FAILED;
    }
  }

  onTurn(turn);
  const unwatch = [watchTurn(), watchStatus()];
  // A server that was never reached, and one that refused us: both are "no server" to a script.
  const timer = setTimeout(() => {
    if (turn.stream.status.state !== "connecting") return;
    isOutOfReach = true;
    turn.stream.leave();
  }, connectMsMax);
  try {
    const end = await turn.ended;
    const { model } = turn.view;
    return { end, exitCode: exitCode(end), model, durationMs: options.now() - startedMs, hasStreamed };
  } finally {
    clearTimeout(timer);
    for (const stop of unwatch) stop();
    onTurn(undefined);
  }
}

function isRefusal(error: HoldfastError | undefined): boolean {
  return (
    error?.code === "unauthenticated" || error?.code === "unavailable" || error?.code === "connection_lost"
  );
}

function report(shown: Shown, conversation: Conversation, options: OneShotOptions): number {
  const { end, exitCode, model, durationMs, hasStreamed } = shown;
  const { settings, stdout, note } = options;
  const failure = reported(end, exitCode);
  if (settings.isJson) {
    const outcome = end.reason === "left" ? "lost" : end.reason;
    const { usage, text } = end;
    const result: Result = {
      type: "result",
      outcome,
      exitCode,
      text,
      conversation: conversation.id,
      model,
      usage,
      durationMs,
      failure,
    };
    stdout.write(jsonLine(result));
    return exitCode;
  }
  const text = stdout.isTTY === true ? safeText(end.text) : end.text;
  if (!hasStreamed && text !== "") stdout.write(text);
  if (end.text !== "" && !end.text.endsWith("\n")) stdout.write("\n");
  if (failure !== null)
    note(
      `holdfast: ${failureLine({ ...failure, retryAfterMs: end.failure?.retryAfterMs }, SCRIPT_REMEDIES)}`,
    );
  if (exitCode === EXIT_NO_SERVER) note("holdfast: the message is kept; --continue sends it again");
  if (failure?.kind === "unauthenticated")
    note("holdfast: set HOLDFAST_API_KEY to an API key of that server");
  return exitCode;
}

function reported(end: TurnEnd, exitCode: number): Result["failure"] {
  const isOut = exitCode === EXIT_NO_SERVER;
  const failure = failureOf(end, isOut ? "the server cannot be reached" : "the turn was lost");
  if (end.reason === "completed" || end.reason === "aborted" || failure === undefined) return null;
  return { kind: failure.kind, message: failure.message };
}
