/**
 * `holdfast demo`: a turn with tools, real processes, real SIGKILL, and then the proof that nothing was lost and nothing
 * done twice.
 *
 * Everything happens in a directory of its own, which is removed at the end, however it ends. Exit code 0 means that every check
 * holds.
 */
import { rmSync } from "node:fs";
import { shellWord } from "../protocol/shell-word.ts";
import { newBoard } from "./demo/board.ts";
import type { Check } from "./demo/check.ts";
import { readEvidence } from "./demo/evidence.ts";
import { PLAY } from "./demo/play.ts";
import { prove } from "./demo/proof.ts";
import { printProof } from "./demo/proof-table.ts";
import { prepareShow } from "./demo/show.ts";
import { killCommands, setStage, type Stage } from "./demo/stage.ts";
import { EXIT_FAILED } from "./failures.ts";
import type { Surroundings } from "./terminal.ts";

export interface DemoFlags {
  readonly keep?: boolean;
  readonly fast?: boolean;
}

/** Between two words: as people read, and as fast as the blows can still hit the middle of a sentence. */
const READING_PACE_MS = 75;
const FAST_PACE_MS = 35;

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const EXIT_INTERRUPTED = 130;

export async function demo(flags: DemoFlags, surroundings: Surroundings): Promise<void> {
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  for (const signal of SIGNALS) process.on(signal, leave);
  const stage = setStage(surroundings);
  try {
    const checks = await perform(stage, flags, surroundings, leaving.signal);
    if (checks.some(({ problems }) => problems.length > 0)) process.exitCode = EXIT_FAILED;
  } catch (error) {
    if (!leaving.signal.aborted) throw error;
    surroundings.stderr.write("\nLeft; nothing runs any more.\n");
    process.exitCode = EXIT_INTERRUPTED;
  } finally {
    for (const signal of SIGNALS) process.off(signal, leave);
    killCommands(stage.mark);
    if (flags.keep === true) surroundings.stderr.write(`Kept: ${stage.directory}\n`);
    else rmSync(stage.directory, { recursive: true, force: true });
  }
}

async function perform(
  stage: Stage,
  flags: DemoFlags,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<readonly Check[]> {
  const board = newBoard(surroundings);
  board.print("Holdfast: an agent's turn, while plugs are pulled", board.style.bold);
  board.print("Real processes, real SIGKILL, real files. The model is a script, and no AI.", board.style.dim);
  board.print();
  const paceMs = flags.fast === true ? FAST_PACE_MS : READING_PACE_MS;
  const show = await prepareShow({ ...stage, paceMs, board, signal });
  try {
    await show.play();
    await show.end();
  } finally {
    await show.abandon();
  }
  const { story, blows } = show;
  const disk = await readEvidence({ ...stage, now: surroundings.now });
  const checks = prove({
    ...disk,
    play: PLAY,
    lives: story.lives,
    serverKills: blows.server,
    shown: story.over?.texts ?? [],
  });
  printProof(checks, blows, board);
  board.print();
  board.print("Next, a server of your own, with a gateway for OpenAI clients:", board.style.dim);
  board.line(`${surroundings.command} serve`);
  if (flags.keep === true) {
    const { dataDir, homeKeyFile } = stage;
    board.print("Look for yourself:", board.style.dim);
    board.line(
      `${surroundings.command} inspect --data-dir ${shellWord(dataDir)} --stream ${disk.idempotencyKey} --home-key-file ${shellWord(homeKeyFile)}`,
    );
  }
  return checks;
}
