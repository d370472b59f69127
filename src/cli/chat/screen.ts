/**
 * The screen of a turn: text that only grows, and below it one line that is rewritten.
 *
 * The text is written as it comes, so that the terminal wraps it and a person can copy it whole. The cursor's column is
 * counted along, since to draw the line below and return is only possible when it is known.
 *
 * Without a terminal there is no line: what it would say goes to standard error, when it changes.
 */
import { stripVTControlCharacters } from "node:util";
import type { Screen } from "../terminal.ts";
import type { Style } from "./style.ts";
import { columnAfter, cutToWidth } from "./text-width.ts";

export interface TurnScreen {
  /** Text of the transcript. */
  write(text: string): void;
  /** The line below; undefined takes it away. */
  status(line: string | undefined): void;
  /** A line of its own, above the rewritten one: what a command was asked for. */
  print(line: string): void;
  /** The same for a note about the chat itself; without a terminal it goes to standard error. */
  note(line: string): void;
  /** Lets others use the screen, from the beginning of a line; what comes meanwhile waits until it is given back. */
  hold(): () => void;
}

export function ttyScreen(out: Screen, style: Style): TurnScreen {
  let column = 0;
  let line: string | undefined;
  /** The cursor stands on the next row already, though the text has not ended its line. */
  let isCut = false;
  /** What waits while another writer has the screen. */
  let waiting: (() => void)[] | undefined;

  function put(text: string): string {
    const columns = style.columns();
    column = columnAfter(column, stripVTControlCharacters(text), columns);
    if (column < columns) return text;
    // The terminal waits to wrap until there is more; to return here the cursor must really be on the next row.
    column = 0;
    isCut = true;
    return `${text} \r`;
  }

  function below(): string {
    if (line === undefined) return "";
    const shown = cutToWidth(line, style.columns() - 1);
    return `\n${style.dim(shown)}\u001b[1A\u001b[${column + 1}G`;
  }

  const erased = (): string => (line === undefined ? "" : "\u001b[J");

  function write(text: string): void {
    out.write(erased() + put(text) + below());
  }

  function whenFree(act: () => void): void {
    if (waiting === undefined) act();
    else waiting.push(act);
  }

  function print(text: string): void {
    isCut ||= column !== 0;
    write(`${column === 0 ? "" : "\n"}${text}\n`);
  }

  /** The line break that the text would have made has been made. */
  function writeOn(text: string): void {
    const rest = isCut && text.startsWith("\n") ? text.slice(1) : text;
    isCut = false;
    write(rest);
  }

  return {
    write: (text) => {
      if (text !== "") whenFree(() => writeOn(text));
    },
    status: (next) => {
      if (next === line) return;
      // While another writer has the screen there is no line: only the last word on it counts.
      const erase = waiting === undefined ? erased() : "";
      line = next;
      if (waiting === undefined) out.write(erase + below());
    },
    print: (text) => whenFree(() => print(text)),
    note: (text) => whenFree(() => print(text)),
    hold: () => {
      out.write(erased() + (column === 0 ? "" : "\n"));
      isCut ||= column !== 0;
      column = 0;
      waiting = [];
      return () => {
        const acts = waiting ?? [];
        waiting = undefined;
        out.write(below());
        for (const act of acts) act();
      };
    },
  };
}

export function plainScreen(out: Screen, notes: Screen): TurnScreen {
  let isMidLine = false;
  let isCut = false;
  const endLine = (): void => {
    if (isMidLine) out.write("\n");
    isCut ||= isMidLine;
    isMidLine = false;
  };
  return {
    write: (text) => {
      if (text === "") return;
      out.write(isCut && text.startsWith("\n") ? text.slice(1) : text);
      isCut = false;
      isMidLine = !text.endsWith("\n");
    },
    status: () => undefined,
    print: (text) => {
      endLine();
      out.write(`${text}\n`);
    },
    note: (text) => {
      // Both may be the same terminal or file.
      endLine();
      if (text !== "") notes.write(`${text}\n`);
    },
    // Lines of a log do not get into each other's way.
    hold: () => {
      endLine();
      return () => undefined;
    },
  };
}
