/**
 * The log of the show on the screen: when, who, what. What the agent says runs on as it comes, word by word, and
 * whatever happens meanwhile gets a line of its own.
 *
 * Lines are broken by us, so that a narrow terminal shows columns and not rubble.
 */
import { type Style, styleOf } from "../chat/style.ts";
import { textWidth } from "../chat/text-width.ts";
import { type Screen, type Surroundings, visible } from "../terminal.ts";

export type Who = "agent" | "server" | "client" | "network" | "KILL";

/** Long lines are hard to read, also where there is room for them. */
const COLUMNS_MAX = 100;
const WHO_WIDTH = 7;
/** "12.3s ", who, two spaces. */
const INDENT = 7 + WHO_WIDTH + 2;
/** Below it the text gets a line of its own, and a small indent. */
const ROOMY_COLUMNS = 56;
const NARROW_INDENT = 2;

export class Board {
  readonly style: Style;
  readonly #screen: Screen;
  readonly #now: () => number;
  readonly #beganMs: number;
  /** Cells of the agent's line that are written; undefined when no line of its is open. */
  #column: number | undefined;

  constructor({ stdout, env, now }: Pick<Surroundings, "stdout" | "env" | "now">) {
    this.style = styleOf(stdout, env);
    this.#screen = stdout;
    this.#now = now;
    this.#beganMs = now();
  }

  get elapsedMs(): number {
    return this.#now() - this.#beganMs;
  }

  /** Where text is broken. */
  get columns(): number {
    return Math.max(20, Math.min(this.style.columns(), COLUMNS_MAX));
  }

  get #isNarrow(): boolean {
    return this.columns < ROOMY_COLUMNS;
  }

  get #indent(): number {
    return this.#isNarrow ? NARROW_INDENT : INDENT;
  }

  /** A line, or a paragraph, without a time. */
  print(text = "", paint: (text: string) => string = (plain) => plain): void {
    this.#closeLine();
    for (const line of wrapped(text, this.columns)) this.#write(`${paint(line)}\n`);
  }

  /** A line that is broken and painted already. */
  line(text: string): void {
    this.#closeLine();
    this.#write(`${text}\n`);
  }

  say(who: Who, text: string, paint: (text: string) => string = (plain) => plain): void {
    this.#closeLine();
    const lines = wrapped(visible(text), this.columns - this.#indent);
    const margin = " ".repeat(this.#indent);
    this.#write(`${this.#head(who)}${lines.map(paint).join(`\n${margin}`)}\n`);
  }

  /** More of what the agent says. */
  piece(text: string): void {
    // A word stays whole, with the space behind it.
    for (const word of visible(text).match(/\S+\s*|\s+/g) ?? []) {
      if (this.#column === undefined) this.#openLine();
      const column = this.#column ?? 0;
      if (column > this.#indent && column + textWidth(word.trimEnd()) > this.columns) {
        this.#write(`\n${" ".repeat(this.#indent)}`);
        this.#column = this.#indent;
      }
      this.#write(word);
      this.#column = (this.#column ?? 0) + textWidth(word);
    }
  }

  #openLine(): void {
    this.#write(this.#head("agent"));
    this.#column = this.#indent;
  }

  #closeLine(): void {
    if (this.#column !== undefined) this.#write("\n");
    this.#column = undefined;
  }

  #head(who: Who): string {
    const { dim } = this.style;
    const time = `${(this.elapsedMs / 1_000).toFixed(1)}s`;
    const name = this.#colored(who);
    if (this.#isNarrow) return `${dim(time)} ${name}\n${" ".repeat(NARROW_INDENT)}`;
    return `${dim(time.padStart(6))} ${name}${" ".repeat(WHO_WIDTH - who.length + 2)}`;
  }

  #colored(who: Who): string {
    const { bold, cyan, green, yellow, red } = this.style;
    switch (who) {
      case "agent":
        return bold(who);
      case "server":
        return cyan(who);
      case "client":
        return green(who);
      case "network":
        return yellow(who);
      case "KILL":
        return bold(red(who));
    }
  }

  #write(text: string): void {
    this.#screen.write(text);
  }
}

/** Broken at spaces, so that no line has more cells than that. */
export function wrapped(text: string, cells: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && textWidth(longer) > cells) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return [...lines, line];
}
