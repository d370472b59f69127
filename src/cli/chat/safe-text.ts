/**
 * Text of models and tools, made safe to print: it may show anything and steer nothing.
 *
 * The author of a web page that a tool reads must not be able to move the cursor, hide a
 * line or rewrite an answer. So line breaks stay, tabs become spaces, and every other control and format
 * character is shown by its number.
 *
 * The sign of our own questions is ours alone: text that holds it shows another one, so that it cannot pass for a question.
 *
 * Invariant: what comes out holds no control character but the line feed, and not our sign.
 */
import { visible } from "../terminal.ts";

/** Before everything that a yes or a no is asked for. */
export const OUR_SIGN = "▲";
const OTHER_SIGN = "△";

const TAB = "    ";

/** Any number of lines. A carriage return before a line feed, or at the end of a piece, is only the end of a line. */
export function safeText(text: string): string {
  if (/^[\u0020-\u007e\n]*$/.test(text)) return text;
  return text
    .replaceAll(/\r(?=\n|$)/g, "")
    .split("\n")
    .map((line) => safeLine(line.replaceAll("\t", TAB)))
    .join("\n");
}

/** Output of a command: a lone carriage return begins the line anew, as progress bars do, so it is shown as a new line. */
export function safeOutput(text: string): string {
  return safeText(text.replaceAll(/\r(?!\n|$)/g, "\n"));
}

/** On one line, whatever it holds. */
export function safeLine(text: string): string {
  return visible(text).replaceAll(OUR_SIGN, OTHER_SIGN);
}
