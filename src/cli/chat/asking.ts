/**
 * Asks the person in front of the screen, one thing at a time, and holds the screen meanwhile.
 *
 * Invariant: nothing is allowed without an answer that says so. Ctrl-C and a question that fails are a no. A person who leaves
 * (Ctrl-D) has not answered: the question stays open, and the next chat asks it again.
 */
import { messageOf } from "../../protocol/errors.ts";
import type { InteractionQuery, Question } from "../../protocol/messages.ts";
import { type ApprovalAnswer, type ApprovalRequest, foldedText, visibleLine } from "../../tools/index.ts";
import { approvalPage, approvalPrompt, type ShownRequest } from "./approval-pages.ts";
import type { Entered, LineInput } from "./line-input.ts";
import * as words from "./questions.ts";
import type { TurnScreen } from "./screen.ts";
import type { Style } from "./style.ts";
import { textIn } from "../../turn/content.ts";

export interface Asking {
  readonly input: LineInput;
  readonly screen: TurnScreen;
  readonly style: Style;
  /** Where the questions are printed. */
  readonly print: (line: string) => void;
  /** Ctrl-C instead of an answer: the turn is to stop. */
  readonly onInterrupt: () => void;
  /** Ctrl-D instead of an answer: the person leaves. */
  readonly onLeave: () => void;
}

/** What `InteractionResponse.response` may be. */
export type QueryAnswer =
  | { readonly case: "approval"; readonly value: { readonly approved: boolean; readonly reason: string } }
  | {
      readonly case: "askQuestion";
      readonly value: {
        readonly answers: {
          readonly questionId: string;
          readonly optionIds: string[];
          readonly text: string;
        }[];
      };
    }
  | { readonly case: "unanswerable"; readonly value: { readonly reason: string } };

const STOPPED = "the user stopped the turn";
const CLOSED = "the request was taken back, or the turn was stopped elsewhere";
const UNANSWERED = "the user did not answer";
/** The person has left: whatever waits for the answer ends with this process. */
const LEFT = "left";

export type Asker = ReturnType<typeof newAsker>;

export function newAsker({ input, screen, style, print, onInterrupt, onLeave }: Asking) {
  let last: Promise<unknown> = Promise.resolve();
  let unanswered = 0;

  /** Never resolves for a person who has left. */
  async function answered<Answer>(
    ask: () => Promise<Answer | typeof LEFT>,
    refusal: (reason: string) => Answer,
  ): Promise<Answer> {
    unanswered++;
    const answer = await alone(ask).catch((cause: unknown) => refusal(failedWords(cause)));
    if (answer === LEFT) return new Promise(() => undefined);
    unanswered--;
    return answer;
  }

  /** One question at a time, with the screen to itself. */
  function alone<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    const asked = last.then(async () => {
      const giveBack = screen.hold();
      try {
        return await ask();
      } finally {
        giveBack();
      }
    });
    last = asked.catch(() => undefined);
    return asked;
  }

  async function read(prompt: string, signal?: AbortSignal): Promise<Entered> {
    const entered = await input.read(prompt, "answer", signal);
    if (entered.kind === "interrupt") onInterrupt();
    if (entered.kind === "end") onLeave();
    if (entered.kind === "cancelled") print(style.dim(`  The question is closed: ${CLOSED}.`));
    return entered;
  }

  async function approve(
    request: ShownRequest,
    signal: AbortSignal | undefined,
  ): Promise<ApprovalAnswer | typeof LEFT> {
    for (let at = { from: 0, showsAll: false }; ;) {
      if (signal?.aborted === true) return { answer: "no", reason: CLOSED };
      const page = approvalPage(request, style, at);
      for (const line of page.lines) print(line);
      const entered = await read(approvalPrompt(style), signal);
      if (entered.kind === "interrupt") return { answer: "no", reason: STOPPED };
      if (entered.kind === "end") return LEFT;
      if (entered.kind !== "line") return { answer: "no", reason: UNANSWERED };
      const answer = words.parseApproval(entered.text);
      if (answer === "show") at = { from: 0, showsAll: true };
      else if (answer === "more") at = { from: page.next, showsAll: false };
      else if (answer !== undefined) return answer;
      else print(style.yellow("Please answer y, a or n."));
    }
  }

  async function answer(
    { query }: InteractionQuery,
    signal: AbortSignal | undefined,
  ): Promise<QueryAnswer | typeof LEFT> {
    switch (query.case) {
      case "approval": {
        const { tool, argsJson, reason } = query.value;
        const title = visibleLine(reason === "" ? tool : `${tool}: ${reason}`);
        const lines = foldedText(
          argsJson === undefined ? "" : (textIn(argsJson) ?? `(${argsJson.sizeBytes} bytes)`),
        )
          .split("\n")
          .map((text) => ({ kind: "plain" as const, text }));
        const said = await approve({ title, lines, workspace: "" }, signal);
        if (said === LEFT) return LEFT;
        const why = said.answer === "no" ? (said.reason ?? "") : "";
        return { case: "approval", value: { approved: said.answer !== "no", reason: why } };
      }
      case "askQuestion":
        return askAll(query.value.questions, signal);
      case undefined:
        return { case: "unanswerable", value: { reason: "this client does not know this kind of question" } };
    }
  }

  async function askAll(
    questions: readonly Question[],
    signal: AbortSignal | undefined,
  ): Promise<QueryAnswer | typeof LEFT> {
    const answers = [];
    for (const question of questions) {
      const answer = await ask(question, signal);
      if (answer === LEFT) return LEFT;
      if (answer === undefined) return { case: "unanswerable", value: { reason: "the user did not answer" } };
      if (answer.text !== "" || answer.optionIds.length > 0) {
        answers.push({ questionId: question.id, optionIds: [...answer.optionIds], text: answer.text });
      }
    }
    return { case: "askQuestion", value: { answers } };
  }

  /** Undefined when it is not answered. */
  async function ask(
    question: Question,
    signal: AbortSignal | undefined,
  ): Promise<words.QuestionAnswer | typeof LEFT | undefined> {
    for (;;) {
      if (signal?.aborted === true) return undefined;
      for (const line of words.questionLines(question, style)) print(line);
      const entered = await read(words.questionPrompt(question), signal);
      if (entered.kind === "end") return LEFT;
      if (entered.kind !== "line") return undefined;
      const answer = words.parseAnswer(entered.text, question);
      if (answer !== undefined) return answer;
    }
  }

  return {
    approve(request: ApprovalRequest, signal?: AbortSignal): Promise<ApprovalAnswer> {
      return answered(
        () => approve(request, signal),
        (reason) => ({ answer: "no", reason }),
      );
    },
    answer(query: InteractionQuery, signal?: AbortSignal): Promise<QueryAnswer> {
      return answered(
        () => answer(query, signal),
        (reason) => ({ case: "unanswerable", value: { reason } }),
      );
    },
    /** The turn waits for the person, also for one who has left. */
    get isWaiting(): boolean {
      return unanswered > 0;
    },
    /** Questions wait for this before they are asked. */
    after(ready: Promise<void>): void {
      last = Promise.all([last, ready]);
    },
    /** A yes-or-no question of our own. */
    confirm(question: string): Promise<boolean> {
      return alone(async () => {
        for (;;) {
          const entered = await read(`${question} [Y/n] `);
          if (entered.kind !== "line") return false;
          if (/^\s*(?:y|yes)?\s*$/i.test(entered.text)) return true;
          if (/^\s*(?:n|no)\s*$/i.test(entered.text)) return false;
          print(style.dim("Answer y or n. A message can be sent behind that."));
        }
      }).catch(() => false);
    },
  };
}

function failedWords(cause: unknown): string {
  return `the question could not be asked: ${messageOf(cause)}`;
}
