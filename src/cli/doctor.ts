/**
 * `holdfast doctor`: is a data directory whole? And `--salvage`: use what a damaged write-ahead log still proves.
 *
 * The check reads only, and looks at everything that can be seen without a key: every page, every row of the commit log, and
 * that no stream has a gap. A salvage tries what it would keep by the same check before it changes anything, names what is
 * gone, and leaves the damaged log beside the database.
 */
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { shellWord } from "../protocol/shell-word.ts";
import { openSqliteReadOnly, lockFile } from "../store/index.ts";
import { lockPathOf } from "../store/sqlite/database.ts";
import {
  findLost,
  keptEnd,
  type KeptEnd,
  type LostCommits,
  type LostStream,
} from "../store/sqlite/lost-commits.ts";
import { planSalvage, type SalvagePlan } from "../store/sqlite/salvage-plan.ts";
import { replaceLog, withTwin } from "../store/sqlite/salvage.ts";
import { lookAtLog } from "../store/sqlite/wal-look.ts";
import { commandsOn } from "./commands-on.ts";
import { inspectedDatabase } from "./database-path.ts";
import { failure } from "../node/failures.ts";
import { pastable } from "./own-command.ts";
import { type DataFlags, resolveSettings } from "./settings.ts";
import { scanStreams } from "./stream-scan.ts";
import { counted, type Surroundings, type Terminal, terminal, visible } from "./terminal.ts";

export interface DoctorFlags extends DataFlags {
  readonly salvage?: boolean;
}

const EXIT_DAMAGED = 3;
const EXIT_GONE = 4;
/** More are counted on the screen; --json has them all. */
const STREAMS_SHOWN_MAX = 50;

export async function doctor(flags: DoctorFlags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const { dataDir } = settings;
  const path = inspectedDatabase(flags, settings);
  const show = (lines: readonly string[], data: object): void => {
    const { print } = terminal(surroundings);
    const { command } = surroundings;
    const shown = flags.json === true ? [JSON.stringify(data)] : lines.map((line) => pastable(line, command));
    for (const line of shown) print(line);
  };
  const salvaged = flags.salvage === true ? await salvage(path, surroundings) : undefined;
  if (salvaged !== undefined) {
    show(
      salvagedLines(salvaged, commandsOn(dataDir, surroundings)("keys list"), terminal(surroundings)),
      salvagedData(salvaged),
    );
    if (salvaged.plan.commitsGone > 0) process.exitCode = EXIT_GONE;
    return;
  }
  const checked = await check(path, surroundings);
  if (checked.damage === undefined) {
    show([`${path} is whole: ${counted(checked.streams.size, "stream")}.`], { whole: true, damage: null });
    return;
  }
  if (flags.salvage === true) {
    throw failure(`${checked.damage}. This is no damage of the write-ahead log: there is nothing to salvage`);
  }
  const plan = isLogDamaged(path) ? attemptPlan(path) : undefined;
  show([checked.damage, ...planLines(plan, dataDir)], {
    whole: false,
    damage: checked.damage,
    ...planData(plan),
  });
  process.exitCode = EXIT_DAMAGED;
}

interface Checked {
  readonly damage: string | undefined;
  /** By their numbers. */
  readonly streams: ReadonlyMap<number, StreamName>;
}

/** Looks at every page and every row; reads only. */
export async function check(path: string, { now }: Pick<Surroundings, "now">): Promise<Checked> {
  const streams = new Map<number, StreamName>();
  try {
    const database = await openSqliteReadOnly(path, { now });
    try {
      const page = await database.findDamage();
      if (page !== undefined) return { damage: `${path} is damaged: ${page}`, streams };
      const scan = await scanStreams(database.log);
      for (const { number, name } of scan.streams) streams.set(number, name);
      for await (const { row } of database.log.scan()) await database.log.readBody(row);
      return {
        damage: scan.damage === undefined ? undefined : `${path} is damaged: ${scan.damage}`,
        streams,
      };
    } finally {
      await database.close();
    }
  } catch (error) {
    if (HoldfastError.codeOf(error) !== "stream_failed") throw error;
    return { damage: messageOf(error), streams };
  }
}

function isLogDamaged(path: string): boolean {
  return lookAtLog(`${path}-wal`).kind === "damaged";
}

interface Salvaged {
  readonly plan: SalvagePlan;
  /** Undefined when nothing is gone. */
  readonly lost: LostCommits | undefined;
  /** Where the damaged log is kept. */
  readonly aside: string;
}

/** Under the lock from the first look on: a server that starts meanwhile would change what was seen. Undefined when the log is whole. */
async function salvage(path: string, surroundings: Surroundings): Promise<Salvaged | undefined> {
  const lock = lockFile(lockPathOf(path));
  try {
    if (!isLogDamaged(path)) return undefined;
    const plan = planSalvage(path);
    const kept = await withTwin(path, plan.kept, (twin) => proved(twin, surroundings));
    const lost =
      plan.commitsGone === 0
        ? undefined
        : await withTwin(path, plan.everything, (twin) => named(twin, kept.end, kept.streams));
    return { plan, lost, aside: replaceLog(path, plan, surroundings.now()) };
  } finally {
    lock.release();
  }
}

interface Kept extends Checked {
  readonly end: KeptEnd;
}

async function proved(twin: string, surroundings: Surroundings): Promise<Kept> {
  const checked = await check(twin, surroundings);
  if (checked.damage === undefined) return { ...checked, end: keptEnd(twin) };
  throw failure(
    `what is left cannot be proved whole (${checked.damage}); nothing was changed. Restore the data directory from a backup`,
  );
}

function named(twin: string, end: KeptEnd, streams: Checked["streams"]): LostCommits {
  try {
    return findLost(twin, end, (number) => streams.get(number));
  } catch {
    // Damage lies before every name. How many commits are gone is known all the same.
    return { streams: [], tables: [], unreadable: undefined };
  }
}

function attemptPlan(path: string): SalvagePlan | HoldfastError {
  try {
    return planSalvage(path);
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw error;
  }
}

function planLines(plan: SalvagePlan | HoldfastError | undefined, dataDir: string): readonly string[] {
  if (plan === undefined) return [];
  if (plan instanceof HoldfastError) return [plan.message];
  const { commitsKept, commitsGone, framesMended } = plan;
  return [
    `holdfast doctor --salvage --data-dir ${shellWord(dataDir)} keeps ${counted(commitsKept, "commit")} of the write-ahead log, ` +
      `mends ${counted(framesMended, "damaged frame")}, and gives up ${counted(commitsGone, "commit")}.`,
  ];
}

function planData(plan: SalvagePlan | HoldfastError | undefined): object {
  if (plan === undefined || plan instanceof HoldfastError) return { salvage: null };
  const { commitsKept, commitsGone, framesMended } = plan;
  return { salvage: { commitsKept, commitsGone, framesMended } };
}

function salvagedLines(
  { plan, lost, aside }: Salvaged,
  keysList: string,
  { bold }: Terminal,
): readonly string[] {
  const { commitsKept, commitsGone, framesMended } = plan;
  const kept = `Kept: ${counted(commitsKept, "commit")} of the write-ahead log; ${counted(framesMended, "damaged frame")} mended.`;
  const log = `The damaged log is kept as ${aside}`;
  if (lost === undefined) return [kept, bold("Nothing is gone."), log];
  const shown = lost.streams.slice(0, STREAMS_SHOWN_MAX);
  const more = lost.streams.length - shown.length;
  return [
    kept,
    bold(`Gone: ${counted(commitsGone, "commit")}. The newest one may never have been acknowledged.`),
    ...shown.map((stream) => `  ${lostLine(stream)}`),
    ...(more > 0 ? [`  and ${counted(more, "stream")} more; --json lists them all`] : []),
    ...lost.tables.map(({ table, rows }) => `  table ${visible(table)}: ${counted(rows, "row")} written`),
    ...(lost.unreadable === 0
      ? []
      : [`  ${unreadableText(lost.unreadable)} cannot be read: what was in them is not known`]),
    `A client with a newer acknowledgement says so when it returns. API keys that were revoked in these commits are valid again: see ${keysList}`,
    log,
  ];
}

function unreadableText(unreadable: number | undefined): string {
  return unreadable === undefined ? "Records of these commits" : counted(unreadable, "record");
}

function lostLine({ name, chunks, events }: LostStream): string {
  const who =
    name === undefined
      ? "a stream whose name cannot be read"
      : `stream ${visible(name.idempotencyKey)} of ${visible(name.principal)}`;
  const span = (what: string, of: LostStream["chunks"]): readonly string[] =>
    of === undefined
      ? []
      : [of.last === of.first ? `${what} ${of.first}` : `${what}s ${of.first} to ${of.last}`];
  const parts = [...span("chunk", chunks), ...span("event", events)];
  return `${who}: ${parts.length === 0 ? "changes of its state" : parts.join(", ")}`;
}

function salvagedData({ plan, lost, aside }: Salvaged): object {
  const { commitsKept, commitsGone, framesMended } = plan;
  return { salvaged: true, commitsKept, commitsGone, framesMended, lost: lost ?? null, damagedLog: aside };
}
