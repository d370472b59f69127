/**
 * What a program wrote to a terminal, as a moving SVG: text that appears when it was written, and a screen that scrolls.
 *
 * The program only appends: words, line ends and colours, no cursor that moves. The drawing itself is the end of the recording, and the animation hides what was
 * not written yet: a renderer without animations, and a reader who wants no motion, see the end. The picture plays once and stays there.
 */

/** What was written at a time. */
export interface Written {
  readonly atMs: number;
  readonly text: string;
}

export interface Recording {
  readonly title: string;
  readonly columns: number;
  readonly rows: number;
  /** 2: the picture is twice as fast as the program. */
  readonly speed: number;
  /** The picture begins here: what was written before is there at once. */
  readonly fromMs: number;
  readonly written: readonly Written[];
}

/** Text of one look, in a row, from a column on. */
interface Run {
  readonly row: number;
  readonly column: number;
  readonly look: string;
  readonly atMs: number;
  text: string;
}

const CELL = { width: 8.4, height: 19 };
const PADDING = 16;
const BAR = 32;
/** Words that follow each other more quickly are one. */
const JOINED_MS = 250;

const LOOKS: Readonly<Record<number, string>> = {
  1: "b",
  2: "d",
  31: "r",
  32: "g",
  33: "y",
  36: "c",
};

const STYLE = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dce2;white-space:pre}
.b{font-weight:700}.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.c{fill:#79c0ff}
.t{animation-name:t}@keyframes t{from,to{visibility:hidden}}`;

export function terminalSvg({ title, columns, rows, speed, fromMs, written }: Recording): string {
  const runs = runsOf(written);
  const width = Math.ceil(columns * CELL.width) + 2 * PADDING;
  const height = rows * CELL.height + 2 * PADDING + BAR;
  const seconds = (atMs: number): string => (Math.max(0, atMs - fromMs) / 1_000 / speed).toFixed(2);
  const texts = runs.map(({ row, column, look, atMs, text }) => {
    const [x, y] = [(column * CELL.width).toFixed(1), (row + 1) * CELL.height - 5];
    const hidden = `style="animation-duration:${seconds(atMs)}s"`;
    return `<text x="${x}" y="${y}" class="t ${look}" ${hidden}>${escaped(text)}</text>`;
  });
  const lastRow = runs.at(-1)?.row ?? 0;
  const scrolls = scrollsOf(runs, rows).map(
    ([atMs, hidden]) => [seconds(atMs), hidden * CELL.height] as const,
  );
  const endS = Number(seconds(runs.at(-1)?.atMs ?? 0)) + 0.01;
  const end = Math.max(0, lastRow + 1 - rows) * CELL.height;
  const frames = scrolls.map(
    ([atS, top]) => `${((100 * Number(atS)) / endS).toFixed(2)}%{transform:translateY(-${top}px)}`,
  );
  const motion = `@keyframes s{0%{transform:none}${frames.join("")}100%{transform:translateY(-${end}px)}}
.s{animation:s ${endS}s step-end}
@media (prefers-reduced-motion:reduce){.t,.s{animation:none}}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">
<style>${STYLE}
${motion}</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
<text x="${width / 2}" y="21" text-anchor="middle" class="d">${escaped(title)}</text>
<svg x="${PADDING}" y="${BAR + PADDING}" width="${width - 2 * PADDING}" height="${rows * CELL.height}"><g class="s" transform="translate(0,-${end})">
${texts.join("\n")}
</g></svg>
</svg>
`;
}

/** When the screen has to move, and how many rows are above it then. */
function scrollsOf(runs: readonly Run[], rows: number): readonly (readonly [atMs: number, hidden: number])[] {
  const scrolls: (readonly [number, number])[] = [];
  let hidden = 0;
  for (const { row, atMs } of runs) {
    if (row + 1 - rows <= hidden) continue;
    hidden = row + 1 - rows;
    scrolls.push([atMs, hidden]);
  }
  return scrolls;
}

function runsOf(written: readonly Written[]): readonly Run[] {
  const runs: Run[] = [];
  const looks = new Set<string>();
  let [row, column] = [0, 0];
  for (const { atMs, text } of written) {
    for (const [piece] of text.matchAll(PIECES)) {
      const code = SGR.exec(piece)?.groups?.["code"];
      if (piece === "\n") [row, column] = [row + 1, 0];
      else if (code !== undefined) turn(looks, Number(code));
      else {
        const look = [...looks].join(" ");
        const last = runs.at(-1);
        const isJoined = last?.row === row && last.look === look && atMs - last.atMs < JOINED_MS;
        if (isJoined && last.column + last.text.length === column) last.text += piece;
        else if (piece.trim() !== "") runs.push({ row, column, look, atMs, text: piece });
        column += piece.length;
      }
    }
  }
  return runs;
}

// eslint-disable-next-line no-control-regex
const SGR = /^\u001b\[(?<code>\d+)m$/;
// eslint-disable-next-line no-control-regex
const PIECES = /\n|\u001b\[\d+m|[^\n\u001b]+/g;

function turn(looks: Set<string>, code: number): void {
  if (code === 22) for (const look of ["b", "d"]) looks.delete(look);
  else if (code === 39) for (const look of ["r", "g", "y", "c"]) looks.delete(look);
  else looks.add(LOOKS[code] ?? "");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
