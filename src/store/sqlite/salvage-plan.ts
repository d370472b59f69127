/**
 * What of a damaged write-ahead log can be proved whole.
 *
 * A frame's sum continues the one that the frame before it has stored, so the chain can be taken up behind a bad frame. That
 * proves more than SQLite sees:
 *
 * - A frame with wrong salts, or a log with a wrong header, whose sums are right, is whole.
 * - A frame with a wrong sum is whole when the next one continues the sum that it should have.
 * - A page that was moved into the database already, and fits the frame's sum, is the frame's.
 * - A page that a later frame has whole again is not needed. Its number must be beyond doubt: the frame's salts are right, and
 *   no other number fits its sum.
 *
 * The log is kept up to the last commit for which every page is whole by these rules, and cut behind it. Then nothing of what
 * follows may have been moved into the database already: such pages would be newer than the rest. Reads only.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { HoldfastError } from "../../protocol/errors.ts";
import { PAGE_BYTES } from "./schema.ts";
import {
  computedHeaderSum,
  FRAME_HEADER_BYTES,
  frameOffset,
  fitsAnotherPage,
  isSameSum,
  type LogHeader,
  makeLogHeader,
  readFrameHeader,
  readLogHeader,
  sealFrame,
  storedHeaderSum,
  type Sum,
  sumOfFrame,
} from "./wal-frames.ts";

export interface SalvagePlan {
  /** Commits of the log that can be proved whole. */
  readonly commitsKept: number;
  /** Commits behind them, as far as they can be counted. The newest may never have been confirmed. */
  readonly commitsGone: number;
  /** Damaged frames among the kept ones: put right, or not needed. */
  readonly framesMended: number;
  /** The log to continue with, its sums made anew. Empty when no commit of it is kept. */
  readonly kept: Buffer;
  /** The log with everything that is there, right or wrong: to name what is lost, and for nothing else. */
  readonly everything: Buffer;
}

interface Frame {
  readonly bytes: Buffer;
  readonly page: number;
  readonly isMark: boolean;
  /** "spoiled": the page is lost, but which one it was is known. */
  readonly state: "whole" | "mended" | "spoiled" | "lost";
}

/** Rejects by throwing when nothing can be proved. The caller is alone with the database. */
export function planSalvage(path: string): SalvagePlan {
  const log = readFileSync(`${path}-wal`);
  const database = openSync(path, "r");
  try {
    const pageOf = pageReader(database);
    const chain = readChain(log, pageOf);
    const end = lastWholeCommit(chain.frames);
    const [kept, gone] = [chain.frames.slice(0, end), chain.frames.slice(end)];
    if (gone.length > 0) assertUnmoved(path, kept, gone, pageOf);
    return {
      commitsKept: kept.filter(({ isMark }) => isMark).length,
      // Frames without a mark behind them are of a commit whose end cannot be read, or was never written.
      commitsGone: gone.filter(({ isMark }, at) => isMark || at === gone.length - 1).length,
      framesMended: kept.filter(({ state }) => state !== "whole").length,
      kept: written(kept.filter(isProved), chain),
      everything: written(chain.frames, chain),
    };
  } finally {
    closeSync(database);
  }
}

/** How many frames there are up to the last commit with which every page is whole. */
function lastWholeCommit(frames: readonly Frame[]): number {
  const bad = frames.flatMap((frame, at) => {
    if (isProved(frame)) return [];
    const isSamePage = (other: Frame, place: number): boolean =>
      place > at && other.page === frame.page && isProved(other);
    const wholeAgain = frame.state === "lost" ? -1 : frames.findIndex(isSamePage);
    return [{ at, wholeAgain: wholeAgain === -1 ? Infinity : wholeAgain }];
  });
  const isWhole = (end: number): boolean => bad.every(({ at, wholeAgain }) => at >= end || wholeAgain < end);
  return 1 + frames.findLastIndex((frame, at) => frame.isMark && isProved(frame) && isWhole(at + 1));
}

interface Chain {
  readonly frames: readonly Frame[];
  readonly pageBytes: number;
  readonly salt: bigint;
  readonly isLittleEndian: boolean;
}

/** Undefined when the database has no such page: a damaged number may name any. */
type PageReader = (page: number, bytes: number) => Buffer | undefined;

/** The frames up to the last one of the log. */
function readChain(log: Buffer, pageOf: PageReader): Chain {
  const header = readLogHeader(log);
  const pageBytes = header?.pageBytes ?? PAGE_BYTES;
  const all: Buffer[] = [];
  for (let frame = 1; frameOffset(frame + 1, pageBytes) <= log.byteLength; frame++) {
    all.push(log.subarray(frameOffset(frame, pageBytes), frameOffset(frame + 1, pageBytes)));
  }
  const { salt, isLittleEndian, sum: first } = header ?? startWithoutHeader(log, all);
  const ours = all.slice(0, all.findLastIndex((bytes) => readFrameHeader(bytes).salt === salt) + 1);
  const frames: Judged[] = [];
  for (const [at, bytes] of ours.entries()) {
    const before = frames.at(-1);
    const judged = judge({
      bytes,
      before: before?.sum ?? first,
      next: ours[at + 1],
      isLittleEndian,
      salt,
      pageOf,
    });
    // What an older log left behind continues itself, too. Other salts are damage only where the log itself is continued.
    const isOurs = readFrameHeader(bytes).salt === salt || before === undefined || isProved(before);
    frames.push(isOurs ? judged : { ...judged, state: "lost" });
  }
  const pageMax = frames.filter(isProved).reduce((most, { page }) => Math.max(most, page), 0);
  const withDoubt = (frame: Judged, at: number): Frame => {
    const before = frames[at - 1];
    if (frame.state !== "lost" || before === undefined || !isProved(before)) return frame;
    if (readFrameHeader(frame.bytes).salt !== salt) return frame;
    if (fitsAnotherPage(before.sum, frame.bytes, pageMax, isLittleEndian)) return frame;
    return { ...frame, state: "spoiled" };
  };
  return { frames: frames.map(withDoubt), pageBytes, salt, isLittleEndian };
}

/** With the sum that the next one continues. */
interface Judged extends Frame {
  readonly sum: Sum;
}

interface Judging {
  readonly bytes: Buffer;
  readonly before: Sum;
  readonly next: Buffer | undefined;
  readonly isLittleEndian: boolean;
  readonly salt: bigint;
  readonly pageOf: PageReader;
}

/** One frame, and the sum that the next one continues. */
function judge({ bytes, before, next, isLittleEndian, salt, pageOf }: Judging): Judged {
  const found = readFrameHeader(bytes);
  const frame = { bytes, page: found.page, isMark: found.mark > 0 };
  const sum = sumOfFrame(before, bytes, isLittleEndian);
  if (continues(before, bytes, isLittleEndian))
    return { ...frame, state: found.salt === salt ? "whole" : "mended", sum };
  if (next !== undefined && continues(sum, next, isLittleEndian)) {
    return { ...frame, state: "mended", sum };
  }
  const page = pageOf(found.page, bytes.byteLength - FRAME_HEADER_BYTES) ?? contentOf(frame);
  const moved = Buffer.concat([bytes.subarray(0, FRAME_HEADER_BYTES), page]);
  if (continues(before, moved, isLittleEndian))
    return { ...frame, bytes: moved, state: "mended", sum: found.sum };
  return { ...frame, state: "lost", sum: found.sum };
}

function isProved(frame: Frame | undefined): boolean {
  return frame?.state === "whole" || frame?.state === "mended";
}

type Start = Pick<LogHeader, "salt" | "sum" | "isLittleEndian">;

/**
 * Where the header is wrong: its sum as it is stored, or as it should be, by which the first frame is right. When that frame
 * is damaged as well, the log is that of the first two frames that continue each other: an older one lies behind it.
 */
function startWithoutHeader(log: Buffer, frames: readonly Buffer[]): Start {
  const stored = storedHeaderSum(log);
  const [first = Buffer.alloc(FRAME_HEADER_BYTES)] = frames;
  const { salt } = readFrameHeader(first);
  for (const isLittleEndian of [true, false]) {
    for (const sum of [stored, computedHeaderSum(log, isLittleEndian)]) {
      if (continues(sum, first, isLittleEndian)) return { salt, sum, isLittleEndian };
    }
  }
  for (const isLittleEndian of [true, false]) {
    const follower = frames.find((frame, at) => at > 0 && follows(frames[at - 1], frame, isLittleEndian));
    if (follower !== undefined) return { salt: readFrameHeader(follower).salt, sum: stored, isLittleEndian };
  }
  return { salt, sum: stored, isLittleEndian: true };
}

function follows(before: Buffer | undefined, frame: Buffer, isLittleEndian: boolean): boolean {
  if (before === undefined) return false;
  const { salt, sum } = readFrameHeader(before);
  return readFrameHeader(frame).salt === salt && continues(sum, frame, isLittleEndian);
}

function continues(before: Sum, frame: Buffer, isLittleEndian: boolean): boolean {
  const { page, sum } = readFrameHeader(frame);
  // Zeros continue zeros, but there is no page 0.
  return page > 0 && isSameSum(sumOfFrame(before, frame, isLittleEndian), sum);
}

/**
 * A page that the kept commits do not have is taken from the database: it must not be newer than they are. Once the database
 * has a page of the commits behind them, it may have all of those, also the ones whose numbers cannot be read.
 */
function assertUnmoved(
  path: string,
  kept: readonly Frame[],
  gone: readonly Frame[],
  pageOf: PageReader,
): void {
  const keptPages = new Map(kept.map((frame) => [frame.page, contentOf(frame)]));
  if (gone.every(({ page, state }) => state !== "lost" && keptPages.has(page))) return;
  const isMoved = (frame: Frame): boolean => {
    const content = contentOf(frame);
    if (keptPages.get(frame.page)?.equals(content) === true) return false;
    return pageOf(frame.page, content.byteLength)?.equals(content) === true;
  };
  if (!gone.some(isMoved)) return;
  throw new HoldfastError(
    "stream_failed",
    `nothing of ${path} can be proved whole: its file has parts of commits that lie behind the damage in the log. Nothing was changed. Restore the data directory from a backup`,
  );
}

function contentOf({ bytes }: Pick<Frame, "bytes">): Buffer {
  return bytes.subarray(FRAME_HEADER_BYTES);
}

function pageReader(file: number): PageReader {
  return (page, bytes) => {
    if (page === 0) return undefined;
    const buffer = Buffer.alloc(bytes);
    return readSync(file, buffer, 0, bytes, (page - 1) * bytes) === bytes ? buffer : undefined;
  };
}

/** A log of these frames, as SQLite would have written it. */
function written(frames: readonly Frame[], { salt, pageBytes, isLittleEndian }: Chain): Buffer {
  if (frames.length === 0) return Buffer.alloc(0);
  const header = makeLogHeader(pageBytes, salt, isLittleEndian);
  let sum = storedHeaderSum(header);
  const copies = frames.map(({ bytes }) => {
    const copy = Buffer.from(bytes);
    sum = sealFrame(copy, salt, sum, isLittleEndian);
    return copy;
  });
  return Buffer.concat([header, ...copies]);
}
