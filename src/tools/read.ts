/**
 * Reads a file, or lines of it.
 *
 * The file goes by once, in pieces: hash, lines and size are of the whole file, and only the lines that were asked
 * for are kept, up to a bound. So a file of gigabytes costs time but no memory, and the hash is good for the write
 * of an edit.
 */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import type { ToolRun } from "../client/tools.ts";
import type { ReadArgs } from "../protocol/messages.ts";
import { fault, throwIfAborted } from "./faults.ts";
import { openHeldFile } from "./held.ts";
import type { Jail } from "./jail.ts";
import { looksBinary, mediaTypeOf } from "./media-type.ts";
import { contentOf, type ResultMessage } from "./results.ts";

/** An edit needs the whole file, so this is far above what a model is shown. */
export const READ_BYTES_MAX = 8 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
/** Sizes have 32 bits on the wire. */
const FILE_BYTES_MAX = 0xffff_ffff;

export async function read(args: ReadArgs, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  using place = jail.locate(args.path);
  if (place.held === undefined) throw fault("ENOENT", `there is no ${args.path}`);
  if (place.held.stats.size > FILE_BYTES_MAX) {
    throw fault("EFBIG", `${args.path} has more than 4 GiB; look at parts of it with the shell`);
  }
  await using handle = await openHeldFile(place.held, args.path);
  const { bytes, ...view } = await scan(handle, args, run.signal);
  const value = { content: await contentOf(bytes, run), ...view };
  return { case: "readResult", value: { result: { case: "success", value } } };
}

async function scan(handle: FileHandle, { firstLine, lineCount }: ReadArgs, signal: AbortSignal) {
  const lines = lineWindow(firstLine ?? 1, lineCount);
  const hash = createHash("sha256");
  const whole = keptBytes();
  let sizeBytes = 0;
  let mediaType: string | undefined;
  for (;;) {
    throwIfAborted(signal);
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, null);
    if (bytesRead === 0) break;
    const piece = buffer.subarray(0, bytesRead);
    mediaType ??= mediaTypeOf(piece) ?? (looksBinary(piece) ? "application/octet-stream" : "text/plain");
    hash.update(piece);
    sizeBytes += bytesRead;
    if (sizeBytes > FILE_BYTES_MAX) throw fault("EFBIG", "the file grew beyond 4 GiB while it was read");
    if (mediaType === "text/plain") lines.take(piece);
    else whole.add(piece);
  }
  const isText = mediaType === undefined || mediaType === "text/plain";
  const kept = isText ? lines.kept : whole;
  return {
    bytes: isText ? kept.wholeLines() : kept.all(),
    totalLines: isText ? lines.total : 0,
    sizeBytes,
    sha256: hash.digest(),
    truncated: kept.isCut,
    mediaType: mediaType ?? "text/plain",
  };
}

/** Counts lines as they go by and keeps those of a range. */
function lineWindow(firstLine: number, lineCount: number | undefined) {
  const kept = keptBytes();
  /** Line breaks seen. */
  let breaks = 0;
  let endsWithBreak = true;
  const first = Math.max(1, firstLine);
  const after = lineCount === undefined ? Infinity : first + lineCount;

  return {
    kept,
    get total(): number {
      return breaks + (endsWithBreak ? 0 : 1);
    },
    take(piece: Buffer): void {
      let wanted: { readonly begin: number; readonly end: number } | undefined;
      let at = 0;
      while (at < piece.length) {
        const found = piece.indexOf(0x0a, at);
        const end = found === -1 ? piece.length : found + 1;
        const line = breaks + 1;
        if (line >= first && line < after) wanted = { begin: wanted?.begin ?? at, end };
        endsWithBreak = found !== -1;
        if (found !== -1) breaks++;
        at = end;
      }
      // All at once: a view of each line would take many times the memory of the lines.
      if (wanted !== undefined) kept.add(piece.subarray(wanted.begin, wanted.end));
    },
  };
}

/** Bytes up to a bound; what comes after it is left out for good. */
function keptBytes() {
  const pieces: Uint8Array[] = [];
  let size = 0;
  let isCut = false;

  const all = (): Buffer => Buffer.concat(pieces);

  return {
    get isCut() {
      return isCut;
    },
    add(piece: Uint8Array): void {
      const room = READ_BYTES_MAX - size;
      const fits = piece.subarray(0, isCut ? 0 : room);
      if (fits.length < piece.length) isCut = true;
      if (fits.length === 0) return;
      pieces.push(fits);
      size += fits.length;
    },
    all,
    /** A cut text ends with its last whole line, or, within one endless line, with a whole character. */
    wholeLines(): Uint8Array {
      const bytes = all();
      if (!isCut) return bytes;
      const lastBreak = bytes.lastIndexOf(0x0a);
      if (lastBreak !== -1) return bytes.subarray(0, lastBreak + 1);
      let end = bytes.length;
      while (end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--;
      return bytes.subarray(0, Math.max(0, end - 1));
    },
  };
}
