/**
 * The colours of the chat, and how wide its screen is. Without colour every paint is the text itself, so nothing else asks.
 */
import type { Paint, Screen, Surroundings } from "../terminal.ts";

export interface Style {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
  /** Cells in a line; a pipe has no width, and lines of programs are not cut for it. */
  readonly columns: () => number;
  /** Lines on the screen. */
  readonly rows: () => number;
}

const PIPE_COLUMNS = 1_000;
const SCREEN_COLUMNS = 80;
const SCREEN_ROWS = 24;

interface SizedScreen extends Screen {
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

export function styleOf(screen: SizedScreen, env: Surroundings["env"]): Style {
  const hasNoColor = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  const isColored = screen.isTTY === true && !hasNoColor;
  const paint =
    (on: number, off: number): Paint =>
    (text) =>
      isColored && text !== "" ? `\u001b[${on}m${text}\u001b[${off}m` : text;
  return {
    bold: paint(1, 22),
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
    cyan: paint(36, 39),
    columns: () => (screen.isTTY === true ? (screen.columns ?? SCREEN_COLUMNS) : PIPE_COLUMNS),
    rows: () => screen.rows ?? SCREEN_ROWS,
  };
}
