/**
 * The proof on the screen: a line per check, and under one that fails what was expected and what was found.
 */
import { type Board, wrapped } from "./board.ts";
import type { Check } from "./check.ts";
import { counted } from "../terminal.ts";

interface Blows {
  readonly server: number;
  readonly client: number;
  readonly network: number;
  /** How many servers there were. Default: one. */
  readonly nodes?: number;
}

const VERDICT_WIDTH = 8;

export function printProof(checks: readonly Check[], blows: Blows, board: Board): void {
  const { bold, dim, green, red } = board.style;
  board.print();
  const { nodes = 1 } = blows;
  const where = nodes === 1 ? "on the server's disk" : "in the database of the nodes";
  board.print(`The proof, from both logs ${where} and the files that tools wrote`, bold);
  const names = Math.max(...checks.map(({ name }) => name.length));
  const indent = VERDICT_WIDTH + names + 2;
  const room = Math.max(20, board.columns() - indent);
  for (const { name, found, problems } of checks) {
    const isOk = problems.length === 0;
    const verdict = isOk ? green("ok".padEnd(VERDICT_WIDTH)) : bold(red("FAILED".padEnd(VERDICT_WIDTH)));
    const texts = isOk ? [found] : problems;
    const lines = texts.flatMap((text) => wrapped(text, room));
    board.line(`${verdict}${bold(name.padEnd(names))}  ${lines.join(`\n${" ".repeat(indent)}`)}`);
  }
  board.print();
  const failed = checks.filter(({ problems }) => problems.length > 0).length;
  const seconds = (board.elapsedMs() / 1_000).toFixed(1);
  const killed = nodes === 1 ? "The server was killed" : `Of ${nodes} nodes the one with the turn was killed`;
  const pulled = `${killed} ${times(blows.server)}, the client ${times(blows.client)}, the network failed ${times(blows.network)}, in ${seconds} s.`;
  board.print(pulled, dim);
  if (failed === 0)
    board.print("The proof holds: nothing lost, no tool ran twice.", (text) => bold(green(text)));
  else
    board.print(`The proof FAILED: ${counted(failed, "check")} of ${checks.length}.`, (text) =>
      bold(red(text)),
    );
}

function times(count: number): string {
  return count === 1 ? "once" : count === 2 ? "twice" : `${count} times`;
}
