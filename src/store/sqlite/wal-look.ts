/**
 * Is a write-ahead log whole, torn, or damaged? Answered from its bytes, before SQLite opens it.
 *
 * SQLite takes the first frame that does not continue the log for the torn end of a commit that was never confirmed, and
 * forgets what follows. A damaged byte looks the same. The commit marks tell the two apart. Every commit is synced before the
 * next one is written (`synchronous=FULL`), so a power cut leaves at most one mark at or behind the first bad frame: that
 * of the commit under way. With two of them the first was durable, and may have been acknowledged: that is damage.
 * The same holds for a bad header with two marks of one salt behind it. With fewer nothing can be proved, and the log is torn.
 *
 * This counts on a log in which nothing older with the same salts lies behind the end. `settleLog` sees to it whenever
 * writing begins: it cuts off the mark that a power cut has left, and syncs the rest, which SQLite adopts without a sync.
 */
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync } from "node:fs";
import { PAGE_BYTES } from "./schema.ts";
import {
  FRAME_HEADER_BYTES,
  frameOffset,
  isMarkApart,
  isSameSum,
  LOG_HEADER_BYTES,
  type LogHeader,
  readFrameHeader,
  readLogHeader,
  type Sum,
  sumOfFrame,
} from "./wal-frames.ts";

/** As many marks at or behind a bad place prove that the first of their commits was durable. */
const MARKS_OF_DAMAGE = 2;
/** Frames that are read from the disk at once: about a megabyte. */
const FRAMES_AT_ONCE = 256;

export interface LogLook {
  /** "empty": SQLite finds no commit in it, and none can be shown to have been there. */
  readonly kind: "empty" | "whole" | "torn" | "damaged";
  readonly header: LogHeader | undefined;
  /** Commits up to the end that SQLite sees. */
  readonly commits: number;
  /** Where that end is. */
  readonly endFrame: number;
  /** The first frame that does not continue the log; 0 when the header is wrong. Undefined when nothing is wrong. */
  readonly badFrame: number | undefined;
  /** Commit marks of this log at or behind the bad place. */
  readonly marksBehind: number;
}

/** Takes the frames of a log, one after the other. Pure. */
export class LogScan {
  readonly #header: LogHeader | undefined;
  readonly #pageBytes: number;
  /** Stored by the frame before. */
  #sum: Sum | undefined;
  #frame = 0;
  #commits = 0;
  #endFrame = 0;
  #badFrame: number | undefined;
  #marksBehind = 0;
  /** Where the header is wrong, the salts that frames have are counted apart. */
  readonly #marksOf = new Map<bigint, number>();

  constructor(header: Buffer) {
    this.#header = readLogHeader(header);
    this.#sum = this.#header?.sum;
    this.#pageBytes = this.#header?.pageBytes ?? PAGE_BYTES;
    if (this.#header === undefined) this.#badFrame = 0;
  }

  get frameBytes(): number {
    return FRAME_HEADER_BYTES + this.#pageBytes;
  }

  take(frame: Buffer): void {
    this.#frame += 1;
    const { mark, salt, sum } = readFrameHeader(frame);
    if (this.#header === undefined) {
      if (mark > 0) this.#marksOf.set(salt, (this.#marksOf.get(salt) ?? 0) + 1);
      return;
    }
    const isOurs = salt === this.#header.salt;
    const continues =
      this.#sum !== undefined && isSameSum(sum, sumOfFrame(this.#sum, frame, this.#header.isLittleEndian));
    this.#sum = sum;
    if (this.#badFrame === undefined && isOurs && continues) {
      if (mark === 0) return;
      this.#commits += 1;
      this.#endFrame = this.#frame;
      return;
    }
    // At the first bad frame the sum may show that it is ours although its salts are wrong.
    const isFirst = this.#badFrame === undefined;
    this.#badFrame ??= this.#frame;
    if (mark === 0 || !(isOurs || (isFirst && continues))) return;
    if (continues || !isMarkApart(frameOffset(this.#frame, this.#pageBytes))) this.#marksBehind += 1;
  }

  end(): LogLook {
    const marksBehind = Math.max(this.#marksBehind, ...this.#marksOf.values());
    return {
      kind: this.#kind(marksBehind),
      header: this.#header,
      commits: this.#commits,
      endFrame: this.#endFrame,
      badFrame: this.#badFrame,
      marksBehind,
    };
  }

  #kind(marksBehind: number): LogLook["kind"] {
    if (marksBehind >= MARKS_OF_DAMAGE) return "damaged";
    if (marksBehind > 0 && this.#header !== undefined) return "torn";
    return this.#commits === 0 ? "empty" : "whole";
  }
}

/** Reads a log from its beginning to its end. No lock of SQLite lies on this file, so that it may be opened and closed. */
export function lookAtLog(log: string): LogLook {
  const file = openForReading(log);
  if (file === undefined) return new LogScan(Buffer.alloc(0)).end();
  try {
    return scanLog(file);
  } finally {
    closeSync(file);
  }
}

function scanLog(file: number): LogLook {
  const header = Buffer.alloc(LOG_HEADER_BYTES);
  const scan = new LogScan(header.subarray(0, readSync(file, header, 0, LOG_HEADER_BYTES, 0)));
  const { frameBytes } = scan;
  const buffer = Buffer.allocUnsafeSlow(FRAMES_AT_ONCE * frameBytes);
  for (let at = LOG_HEADER_BYTES; ;) {
    const bytes = readWhole(file, buffer, at);
    for (let start = 0; start + frameBytes <= bytes; start += frameBytes) {
      scan.take(buffer.subarray(start, start + frameBytes));
    }
    if (bytes < buffer.byteLength) return scan.end();
    at += bytes;
  }
}

/** As many bytes as there are, up to the buffer's length. */
function readWhole(file: number, buffer: Buffer, from: number): number {
  let held = 0;
  while (held < buffer.byteLength) {
    const read = readSync(file, buffer, held, buffer.byteLength - held, from + held);
    if (read === 0) break;
    held += read;
  }
  return held;
}

/**
 * Before a log that was left behind is written on: what SQLite will take for committed is made durable, and what lies
 * behind it goes. Nothing of that was ever confirmed. The caller is alone with the log, and it is not damaged.
 */
export function settleLog(log: string, look: LogLook): void {
  if (look.header === undefined) return;
  const file = openSync(log, "r+");
  try {
    const end = frameOffset(look.endFrame + 1, look.header.pageBytes);
    if (look.kind === "torn" && fstatSync(file).size > end) ftruncateSync(file, end);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function openForReading(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
