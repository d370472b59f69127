/**
 * `holdfast demo`: a turn with tools, real processes, real SIGKILL, and then the proof that nothing was lost and nothing
 * done twice.
 *
 * Everything happens in a directory of its own, which is removed at the end, however it ends. Exit code 0 means that every check
 * holds.
 */
import { rmSync } from "node:fs";
import * as z from "../protocol/rules.ts";
import { asFlag, checked, wholeText } from "../protocol/checked.ts";
import { shellWord } from "../protocol/shell-word.ts";
import { newBoard } from "./demo/board.ts";
import type { Check } from "./demo/check.ts";
import { openSharedDatabase, type SharedDatabase } from "./demo/cluster.ts";
import { readEvidence } from "./demo/evidence.ts";
import { PLAY } from "./demo/play.ts";
import { showPage } from "./demo/page-show.ts";
import { prove } from "./demo/proof.ts";
import { printProof } from "./demo/proof-table.ts";
import { manyNodes, oneServer } from "./demo/servers.ts";
import { prepareShow } from "./demo/show.ts";
import { killCommands, setStage, type Stage } from "./demo/stage.ts";
import { usageError } from "../node/failures.ts";
import { EXIT_FAILED } from "./failures.ts";
import type { Surroundings } from "./terminal.ts";

export interface DemoFlags {
  readonly keep?: boolean;
  readonly fast?: boolean;
  readonly nodes?: string;
  readonly store?: string;
  readonly page?: boolean;
}

/** Between two words: as people read, and as fast as the blows can still hit the middle of a sentence. */
const READING_PACE_MS = 75;
const FAST_PACE_MS = 35;

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const EXIT_INTERRUPTED = 130;

/** More would say nothing else. */
const NODES_MAX = 9;

export async function demo(flags: DemoFlags, surroundings: Surroundings): Promise<void> {
  const count = nodesOf(flags);
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  for (const signal of SIGNALS) process.on(signal, leave);
  const stage = setStage(surroundings);
  let database: SharedDatabase | undefined;
  try {
    if (flags.page === true) {
      await showPage(stage, surroundings, leaving.signal);
      return;
    }
    if (count > 1) database = await openSharedDatabase(flags.store, surroundings.env);
    const checks = await perform({ stage, flags, surroundings, signal: leaving.signal, count, database });
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
    await database?.close();
  }
}

function nodesOf({ nodes, store }: DemoFlags): number {
  const count =
    checked(z.object({ nodes: z.optional(wholeText(1, NODES_MAX)) }), { nodes }, asFlag).nodes ?? 1;
  if (store !== undefined && count === 1) throw usageError("--store goes with --nodes, of 2 or more");
  return count;
}

interface Performance {
  readonly stage: Stage;
  readonly flags: DemoFlags;
  readonly surroundings: Surroundings;
  readonly signal: AbortSignal;
  readonly count: number;
  /** Of several nodes. */
  readonly database: SharedDatabase | undefined;
}

async function perform(performance: Performance): Promise<readonly Check[]> {
  const { stage, flags, surroundings, signal, count, database } = performance;
  const board = newBoard(surroundings);
  board.print("Holdfast: one turn of an agent survives seven failures", board.style.bold);
  board.print("Real processes, real SIGKILLs, real files. The model is a script.", board.style.dim);
  board.print();
  const paceMs = flags.fast === true ? FAST_PACE_MS : READING_PACE_MS;
  const { directory, dataDir } = stage;
  const show = await prepareShow({
    ...stage,
    paceMs,
    board,
    signal,
    openServers: (options) =>
      database === undefined
        ? oneServer(dataDir, options)
        : manyNodes({ ...options, directory, count, database }),
  });
  try {
    await show.play();
    await show.end();
  } finally {
    await show.abandon();
  }
  const { story, blows, disk: place } = show;
  const { name: idempotencyKey } = story;
  const disk = await readEvidence({ ...stage, disk: place, idempotencyKey, now: surroundings.now });
  const checks = prove({
    ...disk,
    play: PLAY,
    lives: story.lives,
    shown: story.over?.texts ?? [],
  });
  printProof(checks, { ...blows, nodes: count }, board);
  board.print();
  board.print("Next, start a server of your own, with a gateway for OpenAI clients:", board.style.dim);
  board.line(`${surroundings.command} serve`);
  if (flags.keep === true && database === undefined) {
    const { homeKeyFile } = stage;
    board.print("Look for yourself:", board.style.dim);
    board.line(
      `${surroundings.command} inspect --data-dir ${shellWord(dataDir)} --stream ${disk.idempotencyKey} --home-key-file ${shellWord(homeKeyFile)}`,
    );
  }
  return checks;
}
