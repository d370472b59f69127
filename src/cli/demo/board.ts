/**
 * The log of the show on the screen: when, who, what. What the agent says runs on as it comes, word by word, and
 * whatever happens meanwhile gets a line of its own.
 *
 * Lines are broken by us, so that a narrow terminal shows columns and not rubble.
 */
import { styleOf } from "../chat/style.ts";
import { textWidth } from "../chat/text-width.ts";
import { type Surroundings, visible } from "../terminal.ts";

export type Who = "agent" | "server" | "client" | "network" | "KILL";

/** Long lines are hard to read, also where there is room for them. */
const COLUMNS_MAX = 100;
const WHO_WIDTH = 7;
/** "12.3s ", who, two spaces. */
const INDENT = 7 + WHO_WIDTH + 2;
/** Below it the text gets a line of its own, and a small indent. */
const ROOMY_COLUMNS = 56;
const NARROW_INDENT = 2;

export type Board = ReturnType<typeof newBoard>;

export function newBoard({ stdout, env, now }: Pick<Surroundings, "stdout" | "env" | "now">) {
  /** Cells of the agent's line that are written; undefined when no line of its is open. */
  let column: number | undefined;
  const style = styleOf(stdout, env);
  const beganMs = now();

  const elapsedMs = (): number => now() - beganMs;
  /** Where text is broken. */
  const columns = (): number => Math.max(20, Math.min(style.columns(), COLUMNS_MAX));
  const isNarrow = (): boolean => columns() < ROOMY_COLUMNS;
  const indent = (): number => (isNarrow() ? NARROW_INDENT : INDENT);

  function openLine(): number {
    stdout.write(head("agent"));
    return (column = indent());
  }

  function closeLine(): void {
    if (column !== undefined) stdout.write("\n");
    column = undefined;
  }

  function head(who: Who): string {
    const { dim } = style;
    const time = `${(elapsedMs() / 1_000).toFixed(1)}s`;
    const name = colored(who);
    if (isNarrow()) return `${dim(time)} ${name}\n${" ".repeat(NARROW_INDENT)}`;
    return `${dim(time.padStart(6))} ${name}${" ".repeat(WHO_WIDTH - who.length + 2)}`;
  }

  function colored(who: Who): string {
    const { bold, cyan, green, yellow, red } = style;
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

  return {
    style,
    elapsedMs,
    columns,
    /** A line, or a paragraph, without a time. */
    print(text = "", paint: (text: string) => string = (plain) => plain): void {
      closeLine();
      for (const line of wrapped(text, columns())) stdout.write(`${paint(line)}\n`);
    },
    /** A line that is broken and painted already. */
    line(text: string): void {
      closeLine();
      stdout.write(`${text}\n`);
    },
    say(who: Who, text: string, paint: (text: string) => string = (plain) => plain): void {
      closeLine();
      const lines = wrapped(visible(text), columns() - indent());
      const margin = " ".repeat(indent());
      stdout.write(`${head(who)}${lines.map(paint).join(`\n${margin}`)}\n`);
    },
    /** More of what the agent says. */
    piece(text: string): void {
      // A word stays whole, with the space behind it.
      for (const word of visible(text).match(/\S+\s*|\s+/g) ?? []) {
        const at = column ?? openLine();
        if (at > indent() && at + textWidth(word.trimEnd()) > columns()) {
          stdout.write(`\n${" ".repeat(indent())}`);
          column = indent();
        }
        stdout.write(word);
        column = (column ?? at) + textWidth(word);
      }
    },
  };
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
