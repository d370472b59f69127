/**
 * When the pieces of answers came: the first one since it was asked for, and each since the provider wrote it.
 */
import { nowUs } from "../harness/body.ts";
import type { Measured } from "../harness/numbers.ts";
import { percentile } from "../harness/statistics.ts";

/** One answer, as it comes. */
export class AnswerTimes {
  readonly #askedUs = nowUs();
  readonly delaysUs: number[] = [];
  firstUs: number | undefined;
  #lastUs = 0;

  /** The text of a piece begins with its stamp. Pieces that were put together count as one, the oldest. */
  came(text: string): void {
    this.#lastUs = nowUs();
    this.firstUs ??= this.#lastUs - this.#askedUs;
    this.delaysUs.push(this.#lastUs - Number.parseInt(text, 10));
  }

  /** Until the last piece: pieces may be put together, so what each took cannot be told. */
  get wholeUs(): number {
    return this.#lastUs - this.#askedUs;
  }
}

/** One question put again and again, one at a time; the first ones only warm the code. */
export async function timeAnswers(
  ask: (times: AnswerTimes) => Promise<void>,
  { warmUps, asked }: { readonly warmUps: number; readonly asked: number },
): Promise<Measured> {
  const answers: AnswerTimes[] = [];
  for (let at = 0; at < warmUps + asked; at++) {
    const times = new AnswerTimes();
    await ask(times);
    if (at >= warmUps) answers.push(times);
  }
  return summaryOf(answers);
}

export function summaryOf(answers: readonly AnswerTimes[]): Measured {
  const firsts = answers.map(({ firstUs }) => firstUs ?? Number.NaN);
  const wholes = answers.map(({ wholeUs }) => wholeUs);
  // The first one's delay is in the time to the first token already.
  const delays = answers.flatMap(({ delaysUs }) => delaysUs.slice(1));
  const ms = (valuesUs: readonly number[], percent: number): number =>
    percentile(
      valuesUs.toSorted((a, b) => a - b),
      percent,
    ) / 1000;
  return {
    firstP50: ms(firsts, 50),
    firstP90: ms(firsts, 90),
    // Words that were put together may be one piece: then none came later.
    ...(delays.length === 0 ? {} : { delayP50: ms(delays, 50), delayP90: ms(delays, 90) }),
    wholeP50: ms(wholes, 50),
    pieces: answers.reduce((sum, { delaysUs }) => sum + delaysUs.length, 0) / answers.length,
  };
}
