/**
 * The events of the benchmark: 150 bytes, about a model's delta with its envelope.
 *
 * The last byte is a mark that occurs nowhere else on the wire, so that a reader of a protocol
 * without lengths can count events without parsing. Where latency is measured, the first eight bytes are the
 * moment of emission by the machine's monotonic clock, which all its processes share.
 */

export const EVENT_BYTES = 150;
export const MARK = 0x7e;

export function eventBody(bytes: number = EVENT_BYTES): Buffer {
  const body = Buffer.alloc(bytes, "x");
  body[bytes - 1] = MARK;
  return body;
}

export function stampedBody(): Buffer {
  const body = eventBody();
  body.writeDoubleBE(nowUs(), 0);
  return body;
}

/** Microseconds since some moment, the same one for every process of this machine. */
export function nowUs(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

export function countMarks(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(MARK); at !== -1; at = bytes.indexOf(MARK, at + 1)) count++;
  return count;
}
