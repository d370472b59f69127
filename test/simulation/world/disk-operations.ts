/**
 * What both kinds of files on the simulated disk do to their rows.
 *
 * One idea: an operation is a change of rows that happens whole, or (only an append) leaves its
 * first bytes; everything else about failing is the disk's business.
 *
 * Invariant: a row that was complete once is never cut; only a torn tail is, and nobody was ever
 * told of that one.
 */
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { LogRow } from "../../../src/store/commit-log.ts";
import { decodeRecord, encodeRecord, numberRecord } from "./disk-frame.ts";
import type { DiskFile, DiskHandle, Operation, SimDisk } from "./disk.ts";
import type { EffectKind } from "./process.ts";

export type Work = Pick<Operation, "apply" | "tear" | "needsSpace" | "writes">;

/** Settles when the disk has answered; never, when the process died. */
export function submit<T>(
  disk: SimDisk,
  kind: EffectKind,
  fileName: string,
  handle: DiskHandle,
  work: Work,
  result: () => T,
): Promise<T> {
  const answered = new Promise<void>((resolve, reject) => {
    disk.submit(kind, fileName, { ...work, handle, done: resolve, failed: reject });
  });
  return answered.then(result);
}

/** Looks when its turn comes, answers when the process can hear it. */
export function submitRead<T>(
  disk: SimDisk,
  fileName: string,
  handle: DiskHandle,
  look: (file: DiskFile) => T,
): Promise<T> {
  let answer = (): T => {
    throw new Error("a read was answered before it was made");
  };
  const apply = (file: DiskFile): void => {
    answer = attempt(() => look(file));
  };
  const work = { apply, tear: undefined, needsSpace: false, writes: false };
  return submit(disk, "disk.read", fileName, handle, work, () => answer());
}

/** Adds one row at the end, or the beginning of one. */
export function appending(payload: Uint8Array, appended: (row: number) => void): Work {
  const bytes = encodeRecord(payload);
  const add = (file: DiskFile, length: number): number => {
    cutTornTail(file);
    const row = file.nextRow++;
    file.rows.set(row, numberRecord(bytes, row).subarray(0, length));
    return row;
  };
  return {
    apply: (file) => appended(add(file, bytes.length)),
    tear(file, random) {
      file.tornRow = add(file, 1 + random.int(bytes.length - 1));
    },
    needsSpace: true,
    writes: true,
  };
}

/** Any other change of rows: whole or not at all. */
export function changing(apply: (file: DiskFile) => void, needsSpace: boolean): Work {
  return { apply, tear: undefined, needsSpace, writes: true };
}

/** All rows, or a refusal that changes nothing. A torn tail is cut for good. */
export function readRows(disk: SimDisk, file: DiskFile): readonly LogRow[] {
  const rows: LogRow[] = [];
  let index = 0;
  for (const [row, bytes] of file.rows) {
    const record = decodeRecord(row, bytes);
    const last = ++index === file.rows.size;
    if (typeof record !== "string") rows.push({ row, record });
    else if (record === "damaged" || !last) refuse(disk, row);
  }
  if (rows.length < file.rows.size) {
    disk.world.hit("disk.torn_tail_cut");
    cutTornTail(file);
  }
  return rows;
}

export function refuse(disk: SimDisk, row: number): never {
  disk.world.hit("disk.damage_detected");
  throw new HoldfastError("stream_failed", `row ${row} on disk ${disk.name} is damaged or missing`);
}

function cutTornTail(file: DiskFile): void {
  if (file.tornRow === undefined) return;
  file.rows.delete(file.tornRow);
  file.tornRow = undefined;
  file.version++;
}

function attempt<T>(look: () => T): () => T {
  try {
    const value = look();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
