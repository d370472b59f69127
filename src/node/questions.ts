/**
 * What the agent asks its user, as a program answers it: with words, with one of the options, or with several.
 */
import type { ConversationsOptions } from "../client/index.ts";
import type { AskQuestionQuery, Content, Question } from "../protocol/messages.ts";
import { parsedJson } from "../protocol/fields.ts";
import type { Approve } from "./program-tools.ts";

export interface AgentQuestion {
  readonly conversation: string;
  readonly text: string;
  /** To choose from; none: any text. */
  readonly options: readonly string[];
  /** Several options may be chosen. */
  readonly isMultiple: boolean;
  /** Fires when the answer counts no longer. */
  readonly signal: AbortSignal;
}

type Said = string | readonly string[] | undefined;

/** One of the options or words of one's own, several options, or undefined: no answer. */
export type AnswerQuestion = (question: AgentQuestion) => Promise<Said> | Said;

interface Answering {
  readonly answer: AnswerQuestion | undefined;
  readonly approve: Approve | undefined;
}

type OnQuery = NonNullable<ConversationsOptions["onQuery"]>;

export function answersOf({ answer, approve }: Answering): OnQuery {
  return async ({ query }, { conversationId: conversation }, signal) => {
    if (query.case === "approval" && approve !== undefined) {
      const { tool, argsJson } = query.value;
      const said = await approve({ conversation, tool, args: parsedJson(textOf(argsJson)), signal });
      const reason = typeof said === "string" ? said : "";
      return { case: "approval", value: { approved: said === true, reason } };
    }
    if (query.case === "askQuestion" && answer !== undefined) {
      const answers = await allAnswers(query.value, (question) =>
        answer({
          conversation,
          text: question.text,
          options: question.options.map(({ label }) => label),
          isMultiple: question.allowMultiple,
          signal,
        }),
      );
      return { case: "askQuestion", value: { answers } };
    }
    const needed = query.case === "approval" ? "approve" : "answer";
    const reason = `this program cannot ask a user: \`connect\` was given no \`${needed}\``;
    return { case: "unanswerable", value: { reason } };
  };
}

/** What is too large to stand in the question is not shown. */
function textOf(content: Content | undefined): string {
  const { content: { case: place, value } = {} } = content ?? {};
  return place === "inline" ? new TextDecoder().decode(value) : "";
}

/** One after the other, as a person answers them. */
async function allAnswers(
  { questions }: AskQuestionQuery,
  ask: (question: Question) => ReturnType<AnswerQuestion>,
) {
  const answers = [];
  for (const question of questions) {
    const said = await ask(question);
    if (said !== undefined) answers.push(answerOf(question, typeof said === "string" ? [said] : said));
  }
  return answers;
}

function answerOf({ id: questionId, options }: Question, said: readonly string[]) {
  const chosen = options.filter(({ label, id }) => said.includes(label) || said.includes(id));
  const words = said.filter((one) => !chosen.some(({ label, id }) => label === one || id === one));
  return { questionId, optionIds: chosen.map(({ id }) => id), text: words.join("\n") };
}
