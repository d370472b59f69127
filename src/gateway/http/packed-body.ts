/**
 * Unpacks a body as its Content-Encoding says, a piece at a time, outside of the event loop's thread.
 *
 * Each piece is asked for before it is kept, so a body that would become too large ends at the bound, not behind it (E8, F2).
 */
import type { Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { GatewayError } from "../openai/index.ts";

type Packing = "gzip" | "deflate" | "br" | "zstd";

const UNPACKERS: Readonly<Record<Packing, (options: { chunkSize: number }) => Transform>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

const PIECE_BYTES = 64 * 1024;

/** Undefined when the body is sent as it is. */
export function packingOf(encoding: string | undefined): Packing | undefined {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "" || name === "identity") return undefined;
  if (isPacking(name)) return name;
  throw new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_encoding",
    message: `Content-Encoding may be one of ${Object.keys(UNPACKERS).join(", ")}, or absent.`,
  });
}

/** `keep` is asked before each piece is kept, and may throw. */
export async function unpack(
  packed: Uint8Array,
  packing: Packing,
  bytesMax: number,
  keep: (byteCount: number) => void,
): Promise<Uint8Array> {
  const unpacker = UNPACKERS[packing]({ chunkSize: PIECE_BYTES });
  unpacker.end(packed);
  const pieces: Uint8Array[] = [];
  let byteCount = 0;
  try {
    for await (const piece of unpacker) {
      if (!(piece instanceof Uint8Array)) continue;
      byteCount += piece.length;
      if (byteCount > bytesMax) throw tooLarge(bytesMax);
      keep(piece.length);
      pieces.push(piece);
    }
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw new GatewayError({
      status: 400,
      type: "invalid_request_error",
      code: "invalid_encoding",
      message: "The request's body is not packed as its Content-Encoding says. Send it as it is.",
    });
  }
  return Buffer.concat(pieces, byteCount);
}

function isPacking(name: string): name is Packing {
  return Object.hasOwn(UNPACKERS, name);
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError({
    status: 413,
    type: "invalid_request_error",
    code: "request_too_large",
    message: `The request's body has more than ${bytesMax} bytes once it is unpacked. Send less.`,
  });
}
